//! Who asks, under which trace and claim, and until when.

use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use trireme_proto::resources::v1::Fence;
use trireme_telemetry::TraceParent;
use uuid::Uuid;

use super::RequestInfo;
use crate::auth::UserInfo;

/// What a request may take when it does not say (upstream's `--request-timeout`).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// One request's surroundings, from the door to the audit. Its owner is the request; nothing outlives it.
#[derive(Debug)]
pub struct Context {
    /// What is asked.
    pub info: RequestInfo,
    /// Who asks, after authentication and impersonation.
    pub user: UserInfo,
    /// The `Audit-Id` of the answer.
    pub audit_id: String,
    /// The client's name for itself; the first part of it names the field manager that did not name itself.
    pub user_agent: String,
    /// Where the request came from.
    pub source: Option<IpAddr>,
    /// The request's own span, the cause of what it writes. None where the request is not traced.
    pub trace: Option<TraceParent>,
    /// Whether the client brought the trace (a `traceparent` that was continued, or a kubectl session).
    pub client_traced: bool,
    /// The claim that the write is made under.
    pub fence: Option<Fence>,
    /// When it arrived; the time that is written into objects.
    pub now: jiff::Timestamp,
    /// When its answer is no longer wanted.
    pub deadline: Instant,
    /// Whether the API server itself asks: authorization and admission of users do not apply.
    pub internal: bool,
    written: AtomicI64,
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<Vec<(String, String)>>,
}

// === impl Context ===

impl Context {
    /// A context for a request of `user`.
    pub fn new(info: RequestInfo, user: UserInfo) -> Self {
        Self {
            info,
            user,
            audit_id: Uuid::new_v4().to_string(),
            user_agent: String::new(),
            source: None,
            trace: None,
            client_traced: false,
            fence: None,
            now: jiff::Timestamp::now(),
            deadline: Instant::now() + DEFAULT_TIMEOUT,
            internal: false,
            written: AtomicI64::new(0),
            warnings: Mutex::default(),
            annotations: Mutex::default(),
        }
    }

    /// The API server's own identity, for its duties and for what a subresource does in its own name.
    /// `reason` is the user agent, so that audit and field managers name the duty.
    pub fn internal(reason: &str) -> Self {
        let mut context = Self::new(RequestInfo::default(), UserInfo::apiserver());
        context.user_agent = reason.to_owned();
        context.internal = true;
        context.trace = trireme_telemetry::current();
        context
    }

    /// Notes the revision that the request wrote.
    pub fn wrote(&self, revision: i64) {
        self.written.fetch_max(revision, Ordering::Relaxed);
    }

    /// The newest revision that the request wrote; 0 if it wrote none.
    pub fn written(&self) -> i64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Adds a warning to the answer, once.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if !text.is_empty() && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// The warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }

    /// Adds an annotation to the request's audit event; the first of a key stays.
    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        let mut annotations = self.annotations.lock();
        if annotations.iter().all(|(k, _)| k != key) {
            annotations.push((key.to_owned(), value.into()));
        }
    }

    /// The audit annotations so far.
    pub fn annotations(&self) -> Vec<(String, String)> {
        self.annotations.lock().clone()
    }

    /// What is left until the deadline.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}
