//! Who a certificate says its holder is.

use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::Error;

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";
/// Kubernetes' attribute of a subject that names the user's UID.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// The identity in a certificate: Kubernetes takes the common name for the user and the organizations for the groups.
///
/// The one reader of subjects, so that nobody is another at another door. It reads them as Go does: the last common name
/// counts, and a subject with a text that is none makes the certificate none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The last CN; empty if there is none.
    pub common_name: String,
    /// Each O.
    pub organizations: Vec<String>,
    /// The user id, if the subject has one.
    pub uid: Option<String>,
    /// When the certificate ends, in seconds since the epoch.
    pub not_after: i64,
    /// SHA-256 of the certificate, in hexadecimal: Kubernetes' credential id.
    pub fingerprint: String,
}

impl Peer {
    /// Reads the subject. It does not verify the certificate.
    ///
    /// # Errors
    /// When it is no certificate, or names more than one user id or an empty one.
    pub fn from_certificate(cert: &CertificateDer<'_>) -> Result<Self, Error> {
        let (_, parsed) = X509Certificate::from_der(cert).map_err(|error| Error::Certificate(error.to_string()))?;
        let (mut common_name, mut organizations, mut uids) = (String::new(), Vec::new(), Vec::new());
        for attribute in parsed.subject().iter_attributes() {
            let text = text(attribute.attr_value())
                .ok_or_else(|| Error::Certificate("its subject holds what is no text".to_owned()))?;
            match attribute.attr_type().to_id_string().as_str() {
                COMMON_NAME => common_name = text,
                ORGANIZATION => organizations.push(text),
                UID => uids.push(text),
                _ => {}
            }
        }
        if uids.len() > 1 || uids.iter().any(String::is_empty) {
            return Err(Error::Certificate("its subject names no one user id".to_owned()));
        }
        Ok(Self {
            common_name,
            organizations,
            uid: uids.pop(),
            not_after: parsed.validity().not_after.timestamp(),
            fingerprint: hex::encode(Sha256::digest(cert)),
        })
    }
}

/// The text of an attribute, by its type.
fn text(value: &Any<'_>) -> Option<String> {
    if value.header.constructed() {
        return None;
    }
    let bytes = value.data;
    let ascii = |allowed: &dyn Fn(u8) -> bool| {
        bytes.iter().all(|byte| byte.is_ascii() && allowed(*byte)).then(|| String::from_utf8_lossy(bytes).into_owned())
    };
    match value.tag() {
        Tag::Utf8String => std::str::from_utf8(bytes).ok().map(str::to_owned),
        Tag::PrintableString => ascii(&|byte| byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(&byte)),
        Tag::Ia5String => ascii(&|_| true),
        Tag::NumericString => ascii(&|byte| byte.is_ascii_digit() || byte == b' '),
        // The types of old, as everybody takes them: Latin-1, and UTF-16 without its pairs.
        Tag::T61String => Some(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString => {
            let (units, rest) = bytes.as_chunks::<2>();
            let units = units.strip_suffix(&[[0, 0]]).unwrap_or(units);
            let point = |unit: &[u8; 2]| match u16::from_be_bytes(*unit) {
                0xfffe | 0xffff | 0xfdd0..=0xfdef => None,
                point => char::from_u32(point.into()),
            };
            rest.is_empty().then(|| units.iter().map(point).collect::<Option<String>>()).flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rcgen::string::{BmpString, PrintableString};
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    /// A certificate whose subject holds these.
    fn with(subject: Vec<(DnType, DnValue)>) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        subject.into_iter().for_each(|(ty, value)| params.distinguished_name.push(ty, value));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn utf8(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    /// The same certificate with other bytes of the same length somewhere in its subject. Its signature is wrong then,
    /// which the reader does not look at.
    fn changed(certificate: &CertificateDer<'_>, from: &[u8], to: &[u8]) -> CertificateDer<'static> {
        let mut der = certificate.to_vec();
        let at = der.windows(from.len()).rposition(|window| window == from).unwrap();
        der.get_mut(at..at + to.len()).unwrap().copy_from_slice(to);
        CertificateDer::from(der)
    }

    #[test]
    fn the_last_common_name_counts() {
        // rcgen holds one of each type: the country becomes a second common name.
        let two = with(vec![(DnType::CommonName, utf8("alice")), (DnType::CountryName, utf8("admin"))]);
        let two = changed(&two, &[0x55, 4, 6], &[0x55, 4, 3]);
        assert_eq!(Peer::from_certificate(&two).unwrap().common_name, "admin");
    }

    #[test]
    fn texts_are_read_by_their_types() {
        let name =
            |value: DnValue| Peer::from_certificate(&with(vec![(DnType::CommonName, value)])).unwrap().common_name;
        assert_eq!(name(utf8("zoë")), "zoë");
        assert_eq!(name(DnValue::PrintableString(PrintableString::try_from("a b").unwrap())), "a b");
        assert_eq!(name(DnValue::BmpString(BmpString::try_from("zoë").unwrap())), "zoë");
        let latin = with(vec![(DnType::CommonName, utf8("zoe"))]);
        let latin = changed(&latin, &[12, 3, b'z', b'o', b'e'], &[20, 3, b'z', b'o', 0xeb]);
        assert_eq!(Peer::from_certificate(&latin).unwrap().common_name, "zoë");
    }

    #[test]
    fn what_is_no_text_is_nobody() {
        let good = with(vec![(DnType::CommonName, utf8("alice")), (DnType::OrganizationName, utf8("ops"))]);
        let bad = changed(&good, b"ops", &[b'o', 0xff, b's']);
        assert!(Peer::from_certificate(&good).is_ok() && Peer::from_certificate(&bad).is_err());
        // A number instead of a text.
        assert!(Peer::from_certificate(&changed(&good, &[12, 3], &[2, 3])).is_err());
    }

    #[test]
    fn there_is_one_user_id() {
        let id = |last: u64| DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, last]);
        let one = with(vec![(DnType::CommonName, utf8("a")), (id(2), utf8("u"))]);
        assert_eq!(Peer::from_certificate(&one).unwrap().uid.as_deref(), Some("u"));
        assert!(Peer::from_certificate(&with(vec![(id(2), utf8(""))])).is_err());
        let two = with(vec![(id(2), utf8("u")), (id(3), utf8("v"))]);
        let oid = |last: u8| [0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, last];
        assert!(Peer::from_certificate(&changed(&two, &oid(3), &oid(2))).is_err());
    }
}
