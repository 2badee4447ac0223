//! Who a certificate says its holder is.

use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::oid_registry::Oid;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::Error;

/// The identity in a certificate: Kubernetes takes the common name for the user and the organizations for the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// CN.
    pub common_name: String,
    /// Each O.
    pub organizations: Vec<String>,
    /// The user id (OID 1.3.6.1.4.1.57683.2), if the subject has one.
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
    /// When it is no certificate.
    pub fn from_certificate(cert: &CertificateDer<'_>) -> Result<Self, Error> {
        let (_, parsed) = X509Certificate::from_der(cert).map_err(|error| Error::Certificate(error.to_string()))?;
        let subject = parsed.subject();
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute
                .as_str()
                .map(str::to_owned)
                .unwrap_or_else(|_| String::from_utf8_lossy(attribute.as_slice()).into())
        };
        let uid: Option<Oid<'static>> = Oid::from(&[1, 3, 6, 1, 4, 1, 57683, 2]).ok();
        Ok(Self {
            common_name: subject.iter_common_name().last().map(text).unwrap_or_default(),
            organizations: subject.iter_organization().map(text).collect(),
            uid: uid.and_then(|oid| subject.iter_by_oid(&oid).next().map(text)),
            not_after: parsed.validity().not_after.timestamp(),
            fingerprint: hex::encode(Sha256::digest(cert)),
        })
    }
}
