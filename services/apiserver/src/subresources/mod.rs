//! What is asked of an object beside itself, and kinds that are answered and never stored.
//!
//! | module | what it answers |
//! |---|---|
//! | [`binding`] | `pods/binding`, `bindings`: the scheduler's word |
//! | [`eviction`] | `pods/eviction`, within the disruption budgets |
//! | [`scale`] | `…/scale` of every kind that has one |
//! | [`logs`] | `pods/log`, streamed from the kubelet |
//! | [`connect`] | `pods/exec`, `attach`, `portforward`: bytes both ways, untouched |
//! | [`proxy`] | `nodes/proxy`, `pods/proxy`, `services/proxy` |
//! | [`kubelet`] | how a node's kubelet is reached |
//! | [`bodies`] | the kinds of bodies that no resource has |
//!
//! Reviews and TokenRequests are dispatched from here to [`crate::auth::reviews`] and [`crate::tokens`]. What is left
//! (`status`, `ephemeralcontainers`, `resize`, `finalize`, `approval`) is an update with other rules, which the engine makes.

pub mod binding;
pub mod bodies;
pub mod connect;
pub mod eviction;
pub mod kubelet;
pub mod logs;
pub mod proxy;
pub mod scale;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::{Kind, Registry};
use trireme_machinery::status::Status;

use crate::admission::{self, Operation};
use crate::auth::reviews::Reviews;
use crate::auth::{self, Authenticator, Authorizer};
use crate::config::Config;
use crate::error::Error;
use crate::pipeline::decode;
use crate::pipeline::{
    Answer, Body, Context, Documents, Handler, ObjectAnswer, ObjectBody, Objects, RawAnswer, Request,
};
use crate::pipeline::{dedup_owners, match_namespace, track_answered};
use crate::tokens::issue::Terms;
use crate::tokens::{Issuer, publish};
use bodies::Bodies;
use kubelet::Kubelets;

/// Answers all of them.
#[derive(Clone)]
pub struct Subresources {
    inner: Arc<Inner>,
}

struct Inner {
    objects: Arc<dyn Objects>,
    registry: Arc<Registry>,
    authenticator: Authenticator,
    authorizer: Authorizer,
    reviews: Reviews,
    issuer: Option<Issuer>,
    kubelets: Kubelets,
    chain: admission::Chain,
    bodies: Bodies,
    pods: Arc<Kind>,
    budgets: Arc<Kind>,
}

/// What they are made of.
pub struct Parts {
    /// Reads and writes.
    pub objects: Arc<dyn Objects>,
    /// The kinds.
    pub registry: Arc<Registry>,
    /// Who judges.
    pub auth: auth::Parts,
    /// Plugins that a subresource's body goes through.
    pub chain: admission::Chain,
}

impl Subresources {
    /// Everything from the flags.
    pub fn new(parts: Parts, config: &Config) -> Result<Self, Error> {
        let Parts { objects, registry, auth, chain } = parts;
        let missing = |what: &str| Error::Kind(what.to_owned());
        let issuer = match auth::build::signing_key(config)? {
            None => None,
            Some(key) => {
                let terms = Terms {
                    key,
                    issuer: config.service_account_issuer.first().cloned().unwrap_or_default(),
                    audiences: auth::build::audiences(config),
                    longest: config.service_account_max_token_expiration,
                    extend: config.service_account_extend_token_expiration,
                };
                Some(Issuer::new(objects.clone(), &registry, terms).ok_or_else(|| missing("serviceaccounts"))?)
            }
        };
        let inner = Inner {
            pods: registry.by_resource("", "v1", "pods").ok_or_else(|| missing("pods"))?,
            budgets: registry
                .by_resource("policy", "v1", "poddisruptionbudgets")
                .ok_or_else(|| missing("poddisruptionbudgets"))?,
            kubelets: Kubelets::new(objects.clone(), &registry, config)?,
            bodies: Bodies::new(&registry).ok_or_else(|| missing("bodies"))?,
            reviews: Reviews::new(auth.authenticator.clone(), auth.authorizer.clone()),
            authenticator: auth.authenticator,
            authorizer: auth.authorizer,
            objects,
            registry,
            issuer,
            chain,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    async fn answer(&self, context: &Context, request: &Request) -> Option<Result<Answer, Status>> {
        let info = &request.info;
        let kind = self.inner.registry.by_resource(&info.group, &info.version, &info.resource)?;
        let key = (info.group.as_str(), info.resource.as_str(), info.subresource.as_str(), info.verb.as_str());
        Some(match key {
            ("", "pods", "binding", "create") | ("", "bindings", "", "create") => {
                self.bind(context, request, &kind).await
            }
            ("", "pods", "eviction", "create") => self.evict(context, request, &kind).await,
            ("", "pods", "log", "get") => self.logs(context, request).await,
            ("", "serviceaccounts", "token", "create") => self.token(context, request, &kind).await,
            (_, _, "scale", "get" | "update" | "patch") if kind.scale.is_some() => {
                self.scale(context, request, &kind).await
            }
            (_, _, "", "create") if kind.storage.is_empty() => return self.review(context, request, &kind),
            _ => return None,
        })
    }

    fn review(&self, context: &Context, request: &Request, kind: &Arc<Kind>) -> Option<Result<Answer, Status>> {
        let mut review = match decode::body(context, kind, request) {
            Ok(review) => review,
            Err(status) => return Some(Err(status)),
        };
        if let Err(status) = match_namespace(&mut review, &request.info.namespace) {
            return Some(Err(status));
        }
        dedup_owners(context, &mut review, false);
        // Who asked owns the question; the answer is nobody's.
        if let Err(status) = track_answered(context, kind, &mut review, request) {
            return Some(Err(status));
        }
        let reviewed = self.inner.reviews.answer(context, &kind.kind, &request.info.namespace, review)?;
        Some(reviewed.map(|object| created(kind, object)))
    }

    async fn token(&self, context: &Context, request: &Request, kind: &Arc<Kind>) -> Result<Answer, Status> {
        let issuer = self.inner.issuer.as_ref().ok_or_else(Status::unknown_resource)?;
        let body_kind = &self.inner.bodies.token_request;
        let mut body = decode::body(context, body_kind, request)?;
        let info = &request.info;
        self.admit(context, request, kind, &mut body).await?;
        let token = issuer.issue(context, &info.namespace, &info.name, body).await?;
        Ok(created(body_kind, token))
    }

    /// Lets admission look at the body of a subresource that is created.
    async fn admit(
        &self,
        context: &Context,
        request: &Request,
        kind: &Arc<Kind>,
        body: &mut Value,
    ) -> Result<(), Status> {
        if context.internal {
            return Ok(());
        }
        let info = &request.info;
        let mut attributes = admission::Attributes {
            context,
            kind,
            operation: Operation::Create,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            object: Some(body),
            old: None,
            options: &Value::Null,
            dry_run: is_dry_run(request),
        };
        self.inner.chain.mutate(&mut attributes).await?;
        self.inner.chain.validate(&attributes).await
    }
}

#[async_trait]
impl Handler for Subresources {
    async fn handle(&self, context: &Context, request: &Request) -> Option<Result<Answer, Status>> {
        self.answer(context, request).await
    }
}

/// Whether nothing is to be persisted.
fn is_dry_run(request: &Request) -> bool {
    request.params("dryRun").any(|value| value == "All")
}

fn created(kind: &Arc<Kind>, object: Value) -> Answer {
    Answer::Object(ObjectAnswer { code: 201, kind: Some(kind.clone()), object: ObjectBody::Value(object) })
}

/// `Status: Success` with 201, the answer of what is done and not kept.
fn done() -> Answer {
    let mut status = Status::success(None);
    status.code = 201;
    Answer::Status(Box::new(status))
}

/// The OpenID documents, for whoever verifies our tokens.
pub struct OpenId {
    configuration: Option<String>,
    keys: Option<String>,
}

impl OpenId {
    /// The documents of the keys in the flags; `address` is where they are served, if the flags don't say.
    #[must_use]
    pub fn new(config: &Config, address: &str) -> Self {
        let keys = auth::build::verifying_keys(config).ok().filter(|keys| !keys.is_empty());
        let uri = config
            .service_account_jwks_uri
            .clone()
            .unwrap_or_else(|| format!("https://{address}{}", publish::JWKS_PATH));
        let issuer = config.service_account_issuer.first();
        let configuration =
            issuer.zip(keys.as_ref()).map(|(issuer, keys)| publish::configuration(issuer, &uri, keys).to_string());
        Self { configuration, keys: keys.map(|keys| publish::key_set(&keys).to_string()) }
    }
}

impl Documents for OpenId {
    fn handle(&self, request: &Request) -> Option<Answer> {
        let (content_type, text) = match request.info.path.as_str() {
            publish::CONFIGURATION_PATH => ("application/json", self.configuration.as_ref()?),
            publish::JWKS_PATH => (publish::JWKS_TYPE, self.keys.as_ref()?),
            _ => return None,
        };
        Some(Answer::Raw(RawAnswer {
            code: 200,
            content_type: content_type.to_owned(),
            headers: vec![("Cache-Control".to_owned(), "public, max-age=3600".to_owned())],
            body: Body::Full(text.clone().into()),
        }))
    }
}
