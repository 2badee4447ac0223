//! A certificate authority: its key, its certificate, and the signing of identities.

use std::{net::IpAddr, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{AttributeTypeAndValue, X509Certificate, X509Name};

use crate::{
    AuthorityName, Error, Identity, Usage,
    files::{self, Secrecy},
};

const AUTHORITY_LIFE: Duration = Duration::days(3650);
const IDENTITY_LIFE: Duration = Duration::days(365);
/// A certificate that ends sooner than this is issued anew.
const RENEW_BEFORE: Duration = Duration::days(30);
/// How far back a certificate is valid, for clocks that lag.
const CLOCK_SKEW: Duration = Duration::minutes(5);

/// An authority that can sign.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Loads `<name>.crt` and `<name>.key` of `dir`, or makes them.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that holds no certificate or key.
    pub fn open(dir: &Path, name: AuthorityName) -> Result<Self, Error> {
        let (crt, key_file) = paths(dir, name.file());
        let key = key(&key_file)?;
        let certificate = match files::read(&crt)? {
            Some(pem) => pem,
            None => {
                let pem = self_sign(name, &key)?;
                files::write(&crt, pem.as_bytes(), Secrecy::Public)?;
                pem
            }
        };
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(|e| Error::certificate(name.file(), e))?;
        Ok(Self { certificate, issuer })
    }

    /// The authority's certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Makes sure that `dir` holds a good certificate of `identity`: kept if it is this authority's, lasts another
    /// thirty days, is of the wanted subject and usage, and names every wanted address; otherwise issued anew. The key is made once.
    ///
    /// # Errors
    /// A file that cannot be read or written, or a name that cannot be certified.
    pub fn issue(&self, dir: &Path, identity: &Identity) -> Result<(), Error> {
        let (crt, key_file) = paths(dir, &identity.file);
        let had_key = key_file.exists();
        let key = key(&key_file)?;
        if had_key
            && let Some(pem) = files::read(&crt)?
            && is_good(&crt, &pem, &self.certificate, identity)?
        {
            return Ok(());
        }
        let signed = params(identity)?
            .signed_by(&key, &self.issuer)
            .map_err(|e| Error::certificate(&identity.common_name, e))?;
        files::write(&crt, signed.pem().as_bytes(), Secrecy::Public)
    }
}

fn paths(dir: &Path, stem: &str) -> (std::path::PathBuf, std::path::PathBuf) {
    (dir.join(format!("{stem}.crt")), dir.join(format!("{stem}.key")))
}

/// The ECDSA P-256 key of a file, made if there is none.
pub(crate) fn key(path: &Path) -> Result<KeyPair, Error> {
    let name = path.display().to_string();
    if let Some(pem) = files::read(path)? {
        return KeyPair::from_pem(&pem).map_err(|e| Error::certificate(&name, e));
    }
    let key = KeyPair::generate().map_err(|e| Error::certificate(&name, e))?;
    files::write(path, key.serialize_pem().as_bytes(), Secrecy::Secret)?;
    Ok(key)
}

fn self_sign(name: AuthorityName, key: &KeyPair) -> Result<String, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name.common_name());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let now = OffsetDateTime::now_utc();
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + AUTHORITY_LIFE;
    let signed = params.self_signed(key).map_err(|e| Error::certificate(name.common_name(), e))?;
    Ok(signed.pem())
}

fn params(identity: &Identity) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, identity.common_name.as_str());
    if let Some(organization) = &identity.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
    }
    for address in &identity.addresses {
        params.subject_alt_names.push(match address.parse::<IpAddr>() {
            Ok(ip) => SanType::IpAddress(ip),
            Err(_) => {
                SanType::DnsName(address.as_str().try_into().map_err(|e| Error::certificate(&identity.common_name, e))?)
            }
        });
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match identity.usage {
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Both => vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth],
    };
    params.use_authority_key_identifier_extension = true;
    let now = OffsetDateTime::now_utc();
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + IDENTITY_LIFE;
    Ok(params)
}

fn is_good(path: &Path, pem: &str, authority: &str, identity: &Identity) -> Result<bool, Error> {
    let unreadable = |reason: String| Error::Unreadable { path: path.to_owned(), reason };
    let block = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|e| unreadable(e.to_string()))?.1;
    let ca_block = x509_parser::pem::parse_x509_pem(authority.as_bytes()).map_err(|e| unreadable(e.to_string()))?.1;
    let certificate = block.parse_x509().map_err(|e| unreadable(e.to_string()))?;
    let ca = ca_block.parse_x509().map_err(|e| unreadable(e.to_string()))?;
    let lasts =
        certificate.validity().not_after.timestamp() > (OffsetDateTime::now_utc() + RENEW_BEFORE).unix_timestamp();
    let signed = certificate.verify_signature(Some(ca.public_key())).is_ok();
    let named: Vec<String> = certificate
        .subject_alternative_name()
        .ok()
        .flatten()
        .map(|san| san.value.general_names.iter().filter_map(address_of).collect())
        .unwrap_or_default();
    Ok(lasts
        && signed
        && is_of(certificate.subject(), identity)
        && is_for(&certificate, identity.usage)
        && identity.addresses.iter().all(|a| named.contains(a)))
}

/// Whether the subject is the identity's: its name, its group, and nobody else's.
fn is_of(subject: &X509Name<'_>, identity: &Identity) -> bool {
    let texts = |attributes: Vec<&AttributeTypeAndValue<'_>>| -> Option<Vec<String>> {
        attributes.into_iter().map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect()
    };
    let names = texts(subject.iter_common_name().collect());
    let groups = texts(subject.iter_organization().collect());
    names == Some(vec![identity.common_name.clone()]) && groups == Some(identity.organization.iter().cloned().collect())
}

/// Whether the certificate may be used as wanted, and for no more.
fn is_for(certificate: &X509Certificate<'_>, usage: Usage) -> bool {
    let Ok(Some(allowed)) = certificate.extended_key_usage() else { return false };
    let allowed = allowed.value;
    let (client, server) = match usage {
        Usage::Client => (true, false),
        Usage::Server => (false, true),
        Usage::Both => (true, true),
    };
    !allowed.any && allowed.client_auth == client && allowed.server_auth == server
}

fn address_of(name: &x509_parser::extensions::GeneralName<'_>) -> Option<String> {
    match name {
        x509_parser::extensions::GeneralName::DNSName(dns) => Some((*dns).to_owned()),
        x509_parser::extensions::GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_identity_that_changed_gets_another_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open(dir.path(), AuthorityName::Cluster).unwrap();
        let read = || std::fs::read_to_string(dir.path().join("user-ann.crt")).unwrap();
        let issue = |identity: &Identity| {
            authority.issue(dir.path(), identity).unwrap();
            let first = read();
            authority.issue(dir.path(), identity).unwrap();
            assert_eq!(first, read(), "it is kept while it is good");
            first
        };
        let ann = Identity::user("ann", Some("ops"));
        let mut seen = vec![issue(&ann)];
        for changed in [
            Identity { organization: Some("guests".to_owned()), ..ann.clone() },
            Identity { organization: None, ..ann.clone() },
            Identity { common_name: "anna".to_owned(), ..ann.clone() },
            Identity { usage: Usage::Both, ..ann.clone() },
            Identity { usage: Usage::Server, ..ann.clone() },
        ] {
            let issued = issue(&changed);
            assert!(!seen.contains(&issued), "{changed:?}");
            seen.push(issued);
        }
    }
}
