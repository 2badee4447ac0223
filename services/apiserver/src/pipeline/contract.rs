//! What the rest of the API server (authorization, admission, duties, subresources) sees of objects.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::status::Status;

use super::{Answer, Context, Request, Stored};

/// Whose objects a list asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListScope<'a> {
    /// Every namespace, or a cluster-scoped kind.
    All,
    /// One namespace.
    Namespace(&'a str),
}

/// Reads from the watch cache as it is now. Never waits, never fails: an object that is not there yet is `None`.
pub trait Reader: Send + Sync {
    /// One object.
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Stored>>;
    /// The objects of a kind, ordered by key; `namespace` narrows.
    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Stored>>;
    /// The revision of the last event of this kind that the cache has applied. Cheap: what is derived from a kind's
    /// objects is rebuilt when this moved.
    fn revision(&self, kind: &Kind) -> i64;
    /// Whether the cache has been filled once.
    fn synced(&self) -> bool;
}

/// Reads and writes in the API server's own name: defaults, validation, strategy and the store's transactions as for
/// anyone, but neither authorization nor admission.
#[async_trait]
pub trait Objects: Send + Sync {
    /// One object, linearizable.
    async fn get(&self, kind: &Arc<Kind>, namespace: &str, name: &str) -> Result<Arc<Stored>, Status>;

    /// The objects of a kind in a namespace, linearizable, ordered by key.
    async fn list(&self, kind: &Arc<Kind>, namespace: &str) -> Result<Vec<Arc<Stored>>, Status>;

    /// Creates an object.
    async fn create(
        &self,
        context: &Context,
        kind: &Arc<Kind>,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Stored>, Status>;

    /// Reads, changes and writes until nobody came between. An unchanged object is not written. `subresource` chooses
    /// the rules of what may change (`status`, …); empty means the object itself.
    async fn update(
        &self,
        context: &Context,
        kind: &Arc<Kind>,
        namespace: &str,
        name: &str,
        subresource: &str,
        change: &mut (dyn for<'v> FnMut(&'v mut Value) -> Result<(), Status> + Send),
    ) -> Result<Arc<Stored>, Status>;

    /// Deletes an object; `options` are DeleteOptions. The answer is what a client would get (the object, or a Status).
    async fn delete(
        &self,
        context: &Context,
        kind: &Arc<Kind>,
        namespace: &str,
        name: &str,
        options: &Value,
    ) -> Result<Value, Status>;

    /// The watch cache.
    fn reader(&self) -> &dyn Reader;
}

/// A write that belongs into the same transaction as another one.
#[derive(Debug, Clone)]
pub enum Companion {
    /// Makes an object that must not be there yet.
    Create {
        /// Its kind.
        kind: Arc<Kind>,
        /// Its namespace; empty for cluster-scoped kinds.
        namespace: String,
        /// The whole object. uid and creationTimestamp are filled in where they are absent.
        object: Value,
    },
    /// Removes an object, if it is there.
    Delete {
        /// Its kind.
        kind: Arc<Kind>,
        /// Its namespace; empty for cluster-scoped kinds.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Writes that go along with those of a kind: a Service and the IPAddresses it holds. Asked after mutation and before
/// validation; asked again, from the object as it was before, when a companion's place turned out to be taken.
#[async_trait]
pub trait Companions: Send + Sync {
    /// Before `object` is created.
    async fn create(&self, context: &Context, object: &mut Value, dry_run: bool) -> Result<Vec<Companion>, Status>;
    /// Before `old` becomes `new`.
    async fn update(
        &self,
        context: &Context,
        new: &mut Value,
        old: &Value,
        dry_run: bool,
    ) -> Result<Vec<Companion>, Status>;
    /// When `old` leaves the store.
    fn delete(&self, old: &Value) -> Vec<Companion>;
}

/// What is asked of an object beside itself, and kinds that are answered and never stored.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Answers the request; None leaves it to the engine.
    async fn handle(&self, context: &Context, request: &Request) -> Option<Result<Answer, Status>>;
}

/// Documents outside of the API's objects: discovery, OpenAPI, the version.
pub trait Documents: Send + Sync {
    /// The document of a path; None if it has none there.
    fn handle(&self, request: &Request) -> Option<Answer>;

    /// What has to be made before the document can be had, and takes so long that nobody may wait for it in its thread.
    fn unmade(&self, request: &Request) -> Option<Box<dyn FnOnce() + Send>> {
        let _ = request;
        None
    }
}
