//! What a write carries although no reconciler passes it: who reconciles which key under which claim. It travels
//! task-locally, so it holds for everything a reconciler awaits in its own task (use `join_all`, not `spawn`).

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::key::ObjectKey;
use crate::object::ApiResource;

/// Under which claim a write happens: the API server refuses it when the claim record has another revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The controller that writes.
    pub controller: String,
    /// `namespace/name` of what it reconciles.
    pub key: String,
    /// The shard of that key.
    pub shard: u32,
    /// Revision of the claim record.
    pub epoch: i64,
    /// Name of the claim record, a Lease in kube-system.
    pub claim: String,
}

/// A write that was answered: what the key must see in its informers before it runs again.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) resource: ApiResource,
    pub(crate) key: ObjectKey,
    pub(crate) effect: Effect,
}

/// What an informer sees when it has the write.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// A revision.
    Revision(i64),
    /// The object of this uid is gone or is being deleted.
    Deleted { uid: Option<String>, revision: i64 },
}

#[derive(Debug, Default)]
struct Scope {
    fence: Option<Fence>,
    untraced: bool,
    quiet: bool,
    writes: Mutex<Vec<Write>>,
}

tokio::task_local! {
    static SCOPE: Arc<Scope>;
}

/// Runs `future` so that its calls carry the fence, and gives back the writes it made. In a `quiet` one, which has no span,
/// each write is a trace of its own.
pub(crate) async fn scoped<F: Future>(fence: Option<Fence>, quiet: bool, future: F) -> (F::Output, Vec<Write>) {
    let scope = Arc::new(Scope { fence, quiet, ..Scope::default() });
    let output = SCOPE.scope(scope.clone(), future).await;
    let writes = std::mem::take(&mut *scope.writes.lock());
    (output, writes)
}

/// Runs `future` so that its calls carry this fence: for single writes outside a controller.
pub async fn fenced<F: Future>(fence: Fence, future: F) -> F::Output {
    scoped(Some(fence), false, future).await.0
}

/// Runs `future` without traces of its calls: for heartbeats.
pub async fn untraced<F: Future>(future: F) -> F::Output {
    let fence = current_fence();
    SCOPE.scope(Arc::new(Scope { fence, untraced: true, ..Scope::default() }), future).await
}

/// The fence of the running reconcile.
#[must_use]
pub fn current_fence() -> Option<Fence> {
    SCOPE.try_with(|scope| scope.fence.clone()).ok().flatten()
}

pub(crate) fn is_untraced() -> bool {
    SCOPE.try_with(|scope| scope.untraced).unwrap_or(false)
}

pub(crate) fn is_quiet() -> bool {
    SCOPE.try_with(|scope| scope.quiet).unwrap_or(false)
}

pub(crate) fn note(write: Write) {
    let _ = SCOPE.try_with(|scope| scope.writes.lock().push(write));
}
