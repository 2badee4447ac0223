//! Who calls, and may they?

use crate::api::Reviews;
use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::HttpRequest;
use actix_web::http::{Method, StatusCode};
use actix_web::rt::net::TcpStream;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trireme_service::tls::Peer;

const TOKEN_LIFE: Duration = Duration::from_secs(120);
const ALLOWED_LIFE: Duration = Duration::from_secs(300);
const DENIED_LIFE: Duration = Duration::from_secs(30);
/// Beyond this the answers are forgotten: whoever sends random tokens fills nobody's memory.
const REMEMBERED: usize = 1024;

/// Who calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Unauthenticated,
    Forbidden(String),
    Unknown(String),
}

impl Refusal {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Unknown(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unauthenticated => f.write_str("Unauthorized"),
            Self::Forbidden(text) | Self::Unknown(text) => f.write_str(text),
        }
    }
}

type Question = (Caller, &'static str, String);

/// Asks the API server, and remembers its answers for a while.
#[derive(Clone)]
pub(super) struct Access {
    node: String,
    reviews: Option<Arc<dyn Reviews>>,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    tokens: HashMap<[u8; 32], (Instant, Option<Caller>)>,
    answers: HashMap<Question, (Instant, bool)>,
}

/// Keeps who a TLS client is beside its connection. The certificate was verified in the handshake.
pub(super) fn note_peer(io: &dyn std::any::Any, data: &mut actix_web::dev::Extensions) {
    let Some(stream) = io.downcast_ref::<TlsStream<TcpStream>>() else { return };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = chain.first().and_then(|certificate| Peer::from_certificate(certificate).ok());
    // Who has no name is nobody, whatever the groups.
    if let Some(peer) = peer.filter(|peer| !peer.common_name.is_empty()) {
        data.insert(peer);
    }
}

impl Access {
    pub(super) fn new(node: &str, reviews: Option<Arc<dyn Reviews>>) -> Self {
        Self { node: node.to_owned(), reviews, memory: Arc::default() }
    }

    /// Lets a call in, or says why not.
    pub(super) async fn check(&self, request: &HttpRequest) -> Result<Caller, Refusal> {
        let caller = self.authenticate(request).await?;
        let verb = verb(request.method());
        let any_of = subresources(request.path());
        for subresource in any_of {
            if self.authorize(&caller, verb, subresource).await? {
                return Ok(caller);
            }
        }
        let (name, any_of) = (caller.name, any_of.join(" "));
        Err(Refusal::Forbidden(format!(
            "Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)=[{any_of}])\n"
        )))
    }

    async fn authenticate(&self, request: &HttpRequest) -> Result<Caller, Refusal> {
        if let Some(peer) = request.conn_data::<Peer>() {
            let mut groups = peer.organizations.clone();
            groups.push("system:authenticated".into());
            let uid = peer.uid.clone().unwrap_or_default();
            return Ok(Caller { name: peer.common_name.clone(), uid, groups, extra: BTreeMap::new() });
        }
        let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        let token =
            header.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim).filter(|token| !token.is_empty());
        let (Some(token), Some(reviews)) = (token, &self.reviews) else { return Err(Refusal::Unauthenticated) };
        let key: [u8; 32] = Sha256::digest(token).into();
        let known = self.memory.lock().tokens.get(&key).filter(|(at, _)| at.elapsed() < TOKEN_LIFE).cloned();
        if let Some((_, known)) = known {
            return known.ok_or(Refusal::Unauthenticated);
        }
        let status = reviews.token(token).await.map_err(|error| Refusal::Unknown(error.to_string()))?;
        let caller = status.user.filter(|_| status.authenticated == Some(true)).map(|user| Caller {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        });
        let mut memory = self.memory.lock();
        if memory.tokens.len() >= REMEMBERED {
            memory.tokens.clear();
        }
        memory.tokens.insert(key, (Instant::now(), caller.clone()));
        caller.ok_or(Refusal::Unauthenticated)
    }

    async fn authorize(&self, caller: &Caller, verb: &'static str, subresource: &str) -> Result<bool, Refusal> {
        let Some(reviews) = &self.reviews else { return Ok(false) };
        let question = (caller.clone(), verb, subresource.to_owned());
        let life = |allowed| if allowed { ALLOWED_LIFE } else { DENIED_LIFE };
        let known = self.memory.lock().answers.get(&question).filter(|(at, yes)| at.elapsed() < life(*yes)).copied();
        if let Some((_, allowed)) = known {
            return Ok(allowed);
        }
        let spec = self.question(caller, verb, subresource);
        let (allowed, _) = reviews.access(spec).await.map_err(|error| {
            let name = &caller.name;
            tracing::info!(%error, user = name, verb, subresource, "whether a caller may is not known");
            Refusal::Unknown(format!(
                "Authorization error (user={name}, verb={verb}, resource=nodes, subresource={subresource})"
            ))
        })?;
        let mut memory = self.memory.lock();
        if memory.answers.len() >= REMEMBERED {
            memory.answers.clear();
        }
        memory.answers.insert(question, (Instant::now(), allowed));
        Ok(allowed)
    }

    fn question(&self, caller: &Caller, verb: &str, subresource: &str) -> SubjectAccessReviewSpec {
        SubjectAccessReviewSpec {
            user: Some(caller.name.clone()),
            uid: Some(caller.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(caller.groups.clone()),
            extra: (!caller.extra.is_empty()).then(|| caller.extra.clone()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.into()),
                version: Some("v1".into()),
                resource: Some("nodes".into()),
                subresource: Some(subresource.into()),
                name: Some(self.node.clone()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        }
    }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "get",
    }
}

/// What a path is in terms of authorization: any of these suffices.
fn subresources(path: &str) -> &'static [&'static str] {
    match path.split('/').nth(1).unwrap_or_default() {
        "stats" => &["stats"],
        "metrics" => &["metrics"],
        "logs" => &["log"],
        "pods" | "runningpods" => &["pods", "proxy"],
        "healthz" | "livez" | "readyz" => &["healthz", "proxy"],
        "configz" => &["configz", "proxy"],
        _ => &["proxy"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_needs() {
        assert_eq!(subresources("/exec/a/b/c"), ["proxy"]);
        assert_eq!(subresources("/stats/summary"), ["stats"]);
        assert_eq!(subresources("/pods"), ["pods", "proxy"]);
        assert_eq!(subresources("/"), ["proxy"]);
        assert_eq!(verb(&Method::POST), "create");
    }
}
