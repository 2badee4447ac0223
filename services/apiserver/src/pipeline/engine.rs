//! The engine: what every verb needs, and which kind a request is for.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trireme_kinds::{Kind, Registry};
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::status::{Details, Reason, Status};
use trireme_service::health::Health;

use super::audit::Audit;
use super::limit::Limits;
use super::mutation::from_stored;
use super::warm::Roles;
use super::{Companions, Context, Documents, Handler, RequestInfo, Stored};
use crate::admission;
use crate::auth::{Authenticator, Authorizer};
use crate::cache::{Cache, CacheReader};
use crate::storage::codec::Codec;
use crate::storage::leases::Leases;
use crate::storage::read_index::ReadIndex;
use crate::storage::{Client, Sealing, keys};

/// Serves requests. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What an engine is made of.
pub struct Inner {
    /// The kinds that are served.
    pub kinds: Arc<Registry>,
    /// What all keys in the store begin with.
    pub root: Arc<str>,
    /// The store.
    pub client: Client,
    /// The watch cache.
    pub cache: Cache,
    /// The same, as others see it.
    pub reader: CacheReader,
    /// Read indexes.
    pub reads: ReadIndex,
    /// Which values are sealed.
    pub sealing: Sealing,
    /// Leases of Events.
    pub event_leases: Leases,
    /// How old a cause may be that a reaction joins.
    pub trace_window: Duration,
    /// The shortest time of a watch that sets none.
    pub min_watch: Duration,
    /// What a request may take that does not say.
    pub request_timeout: Duration,
    /// How many requests are served at once.
    pub limits: Limits,
    /// Where audit events go.
    pub audit: Option<Audit>,
    /// The server's health checks.
    pub health: Health,
    /// How many objects of a collection are deleted at a time.
    pub delete_workers: usize,
    pub(super) roles: Roles,
    parts: OnceLock<Parts>,
}

/// What is built on top of objects and asked by the engine. Given once, before the doors open.
pub struct Parts {
    /// Who asks.
    pub authenticator: Authenticator,
    /// Whether they may.
    pub authorizer: Authorizer,
    /// Plugins that change or refuse writes.
    pub admission: admission::Chain,
    /// Writes that go along with those of a kind, by group and resource.
    pub companions: HashMap<(String, String), Arc<dyn Companions>>,
    /// What is asked of an object beside itself.
    pub handler: Arc<dyn Handler>,
    /// Documents outside of the API's objects.
    pub documents: Vec<Arc<dyn Documents>>,
}

/// What [`Engine::new`] takes.
pub struct Foundation {
    /// The kinds that are served.
    pub kinds: Arc<Registry>,
    /// What all keys in the store begin with.
    pub root: Arc<str>,
    /// The store.
    pub client: Client,
    /// The watch cache.
    pub cache: Cache,
    /// Read indexes.
    pub reads: ReadIndex,
    /// Which values are sealed.
    pub sealing: Sealing,
    /// How long Events are kept.
    pub event_ttl: Duration,
    /// How old a cause may be that a reaction joins.
    pub trace_window: Duration,
    /// The shortest time of a watch that sets none.
    pub min_watch: Duration,
    /// What a request may take that does not say.
    pub request_timeout: Duration,
    /// How many requests are served at once.
    pub limits: Limits,
    /// Where audit events go.
    pub audit: Option<Audit>,
    /// The server's health checks.
    pub health: Health,
    /// How many objects of a collection are deleted at a time.
    pub delete_workers: usize,
}

/// Where an object is, or where a kind's objects are.
#[derive(Debug, Clone)]
pub struct Target {
    /// The kind in the version that is asked for.
    pub kind: Arc<Kind>,
    /// The namespace; empty for cluster-scoped kinds and for all namespaces.
    pub namespace: String,
    /// The name; empty for a collection.
    pub name: String,
}

// === impl Engine ===

impl Engine {
    /// An engine that still lacks its [`Parts`].
    pub fn new(foundation: Foundation) -> Self {
        let reader = CacheReader { cache: foundation.cache.clone(), root: foundation.root.clone() };
        Self {
            inner: Arc::new(Inner {
                kinds: foundation.kinds,
                root: foundation.root,
                client: foundation.client,
                cache: foundation.cache,
                reader,
                reads: foundation.reads,
                sealing: foundation.sealing,
                event_leases: Leases::new(foundation.event_ttl),
                trace_window: foundation.trace_window,
                min_watch: foundation.min_watch,
                request_timeout: foundation.request_timeout,
                limits: foundation.limits,
                audit: foundation.audit,
                health: foundation.health,
                delete_workers: foundation.delete_workers.max(1),
                roles: Roles::default(),
                parts: OnceLock::new(),
            }),
        }
    }

    /// Gives the engine its parts; a second time does nothing.
    pub fn equip(&self, parts: Parts) {
        let _ = self.inner.parts.set(parts);
    }

    /// The parts, once they are there.
    pub fn parts(&self) -> Result<&Parts, Status> {
        self.inner.parts.get().ok_or_else(|| Status::service_unavailable("the API server is starting"))
    }

    /// Whether a header of this name, in lower case, may say who asks.
    pub fn reads_header(&self, name: &str) -> bool {
        self.inner.parts.get().is_some_and(|parts| parts.authenticator.reads(name))
    }

    /// The kind that a request is for; 404 in Kubernetes' words where there is none.
    pub fn target(&self, info: &RequestInfo) -> Result<Target, Status> {
        let kind =
            self.kinds.by_resource(&info.group, &info.version, &info.resource).ok_or_else(Status::unknown_resource)?;
        let lists = matches!(info.verb.as_str(), "list" | "watch" | "deletecollection");
        // A Namespace's requests name it twice.
        let namespace = if kind.namespaced { info.namespace.clone() } else { String::new() };
        if !kind.namespaced && !info.namespace.is_empty() && info.resource != "namespaces" {
            return Err(Status::unknown_resource());
        }
        if kind.namespaced && namespace.is_empty() && !lists && info.verb != "create" {
            return Err(Status::unknown_resource());
        }
        if !info.subresource.is_empty() && kind.subresource(&info.subresource).is_none() {
            return Err(Status::unknown_resource());
        }
        Ok(Target { kind, namespace, name: info.name.clone() })
    }

    /// How a kind is read from the store; kinds that are not stored have no codec.
    pub fn codec(&self, kind: &Kind) -> Result<&Codec, Status> {
        self.cache.codec(&kind.storage).ok_or_else(Status::unknown_resource)
    }

    /// The key of an object, or what the keys of a collection begin with.
    pub fn key(&self, kind: &Kind, namespace: &str, name: &str) -> String {
        keys::key(&self.root, &kind.storage, namespace, name)
    }

    /// The object in the version that is asked for.
    pub fn convert(&self, kind: &Kind, stored: &Stored) -> serde_json::Value {
        from_stored(kind, &stored.type_meta.api_version, stored.value())
    }

    /// Waits, for a moment, until the cache has a revision of our own making, so that the client's next read by any of
    /// the API server's parts sees it.
    pub async fn settle(&self, revision: i64, context: &Context) {
        const PATIENCE: Duration = Duration::from_millis(50);
        let until = context.deadline.min(tokio::time::Instant::now() + PATIENCE);
        self.cache.reached(revision, until).await;
    }
}

impl std::ops::Deref for Engine {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

// === impl Target ===

impl Target {
    /// Group and resource, for messages.
    pub fn resource(&self) -> GroupResource {
        self.kind.group_resource()
    }

    /// 404 for the object.
    pub fn not_found(&self) -> Status {
        Status::not_found(&self.resource(), &self.name)
    }
}

/// 405: the resource is there, the method is not.
pub fn method_not_allowed() -> Status {
    Status::failure(405, Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
        .with_details(Details::default())
}
