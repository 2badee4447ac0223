//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction.

use async_trait::async_trait;
use base64::Engine as _;
use serde_json::Value;
use trireme_machinery::meta;
use trireme_machinery::status::Status;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::{Attributes, Operation, Plugin};
use crate::auth::user::{MASTERS, UserInfo};
use crate::auth::{self, Authorizer};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Whether `user` may do `verb` for a signer: for exactly it, or for all of its domain.
fn may(authorizer: &Authorizer, user: &UserInfo, verb: &str, signer: &str) -> bool {
    let ask = |name: &str| {
        let question = auth::Attributes::resource(verb, GROUP, "signers").named("", name);
        authorizer.authorize(user, &question).allowed()
    };
    ask(signer) || signer.split_once('/').is_some_and(|(domain, _)| ask(&format!("{domain}/*")))
}

fn signer(request: &Value) -> &str {
    request["spec"]["signerName"].as_str().unwrap_or_default()
}

/// Only who may `approve` for a signer approves or denies.
pub struct CertificateApproval {
    authorizer: Authorizer,
}

impl CertificateApproval {
    /// Asks `authorizer`.
    #[must_use]
    pub fn new(authorizer: Authorizer) -> Self {
        Self { authorizer }
    }
}

#[async_trait]
impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Update || !attributes.is_sub(GROUP, REQUESTS, "approval") {
            return Ok(());
        }
        let signer = signer(attributes.old.unwrap_or(&Value::Null));
        if may(&self.authorizer, &attributes.context.user, "approve", signer) {
            return Ok(());
        }
        Err(attributes.forbidden(format!("user not permitted to approve requests with signerName {signer:?}")))
    }
}

/// Only who may `sign` for a signer issues certificates.
pub struct CertificateSigning {
    authorizer: Authorizer,
}

impl CertificateSigning {
    /// Asks `authorizer`.
    #[must_use]
    pub fn new(authorizer: Authorizer) -> Self {
        Self { authorizer }
    }
}

#[async_trait]
impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Update || !attributes.is_sub(GROUP, REQUESTS, "status") {
            return Ok(());
        }
        let old = attributes.old.unwrap_or(&Value::Null);
        let changed = |field: &str| old["status"][field] != attributes.object()["status"][field];
        if !changed("certificate") && !changed("conditions") {
            return Ok(());
        }
        let signer = signer(old);
        if may(&self.authorizer, &attributes.context.user, "sign", signer) {
            return Ok(());
        }
        Err(attributes.forbidden(format!("user not permitted to sign requests with signerName {signer:?}")))
    }
}

/// Nobody asks for a client certificate of system:masters.
pub struct CertificateSubjectRestriction;

#[async_trait]
impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Create || !attributes.is(GROUP, REQUESTS) {
            return Ok(());
        }
        let request = attributes.object();
        if signer(request) != CLIENT_SIGNER {
            return Ok(());
        }
        let organizations = organizations(request["spec"]["request"].as_str().unwrap_or_default());
        let organizations = organizations.map_err(|why| attributes.forbidden(format!("failed to parse CSR: {why}")))?;
        if organizations.iter().any(|organization| organization == MASTERS) {
            let name = meta::name(request);
            tracing::debug!(name, "certificate signing request for {MASTERS} refused");
            return Err(
                attributes.forbidden(format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed"))
            );
        }
        Ok(())
    }
}

/// The organizations in the subject of a request (base64 of PEM).
fn organizations(request: &str) -> Result<Vec<String>, String> {
    let pem = base64::engine::general_purpose::STANDARD.decode(request).map_err(|e| e.to_string())?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).map_err(|e| e.to_string())?;
    let (_, parsed) = X509CertificationRequest::from_der(&pem.contents).map_err(|e| e.to_string())?;
    let subject = &parsed.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect())
}
