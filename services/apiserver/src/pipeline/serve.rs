//! One request from the door to its answer: authenticate, trace, limit, authorize, dispatch, audit.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;
use trireme_machinery::duration;
use trireme_machinery::fields;
use trireme_machinery::status::Status;
use trireme_telemetry::{Hop, Kind, Parent, SpanExt as _};

use super::causes::is_component;
use super::engine::Engine;
use super::{Answer, Context, Request, RequestInfo};
use crate::auth::{self, Attributes, FieldEquals, UserInfo, impersonation};

/// How much longer than the client's patience a request may take to say that it took too long.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What is said of a request that a panic ended.
pub(crate) const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// What a door writes.
pub struct Served {
    /// The request's surroundings: warnings, ids, trace.
    pub context: Context,
    /// The answer, or the refusal.
    pub outcome: Result<Answer, Status>,
}

// === impl Engine ===

impl Engine {
    /// Serves a request.
    pub async fn serve(&self, request: &Request) -> Served {
        let arrived = Instant::now();
        let (context, span) = match self.open(request, arrived).await {
            Ok(opened) => opened,
            Err(served) => return *served,
        };
        let outcome = self.guarded(&context, &span, self.authorized(&context, request)).await;
        self.close(&context, request, &outcome, &span, arrived);
        Served { context, outcome }
    }

    /// Serves a request whose body is still to come: nobody's body is read who may not do what he asks for, and it is as
    /// late as the rest if it does not come.
    pub async fn serve_with(&self, request: &mut Request, body: impl Future<Output = Result<Bytes, Status>>) -> Served {
        let arrived = Instant::now();
        let (context, span) = match self.open(request, arrived).await {
            Ok(opened) => opened,
            Err(served) => return *served,
        };
        let work = async {
            self.authorize(&context, request).await?;
            request.body = match timeout_at(arrived + self.request_timeout, body).await {
                Ok(body) => body?,
                Err(_) => return Err(Status::timeout("request did not complete within the allotted timeout", 0)),
            };
            self.dispatch(&context, request).await
        };
        let outcome = self.guarded(&context, &span, work).await;
        self.close(&context, request, &outcome, &span, arrived);
        Served { context, outcome }
    }

    /// Does the work of a request within its limits; a panic in it ends no more than it.
    async fn guarded(
        &self,
        context: &Context,
        span: &tracing::Span,
        work: impl Future<Output = Result<Answer, Status>>,
    ) -> Result<Answer, Status> {
        let work = self.limited(context, work).instrument(span.clone());
        // The panic's own message is in the log.
        AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(Status::internal(PANICKED)))
    }

    /// Lets a request in that the door answers itself: it is authenticated, authorized and audited.
    pub async fn admit(&self, request: &Request) -> Result<Context, Box<Served>> {
        let arrived = Instant::now();
        let (context, span) = self.open(request, arrived).await?;
        let outcome = self.authorize(&context, request).instrument(span.clone()).await;
        match outcome {
            Ok(()) => {
                let opened = Answer::Raw(super::RawAnswer {
                    code: 101,
                    content_type: String::new(),
                    headers: Vec::new(),
                    body: super::Body::Full(bytes::Bytes::new()),
                });
                self.close(&context, request, &Ok(opened), &span, arrived);
                Ok(context)
            }
            Err(refusal) => {
                let outcome = Err(refusal);
                self.close(&context, request, &outcome, &span, arrived);
                Err(Box::new(Served { context, outcome }))
            }
        }
    }

    /// Answers a request that the door can't hand on. Who asks and may not do it hears no more than that.
    pub async fn refuse(&self, request: &Request, refusal: Status) -> Served {
        let arrived = Instant::now();
        let (context, span) = match self.open(request, arrived).await {
            Ok(opened) => opened,
            Err(served) => return *served,
        };
        let outcome = self.authorize(&context, request).instrument(span.clone()).await.and(Err(refusal));
        self.close(&context, request, &outcome, &span, arrived);
        Served { context, outcome }
    }

    /// Learns who asks, and opens the request's span. Who is refused here is counted and audited as any other.
    async fn open(&self, request: &Request, arrived: Instant) -> Result<(Context, tracing::Span), Box<Served>> {
        let mut context = Context::new(request.info.clone(), UserInfo::default());
        context.user_agent.clone_from(&request.user_agent);
        context.source = request.source;
        context.fence.clone_from(&request.fence);
        if let Some(id) = &request.audit_id {
            context.audit_id.clone_from(id);
        }
        let known = match self.deadline(request, arrived) {
            Ok(deadline) => self.known(request, deadline).await.map(|user| (deadline, user)),
            Err(refusal) => Err(refusal),
        };
        match known {
            Ok((deadline, user)) => (context.deadline, context.user) = (deadline, user),
            Err(refusal) => {
                let outcome = Err(refusal);
                self.close(&context, request, &outcome, &tracing::Span::none(), arrived);
                return Err(Box::new(Served { context, outcome }));
            }
        }
        let span = self.root_span(request, &mut context);
        if context.trace.is_some() {
            let who = context.user.name.clone();
            let took = i64::try_from(arrived.elapsed().as_micros()).unwrap_or(i64::MAX);
            span.in_scope(|| {
                drop(trireme_telemetry::span("authenticate").attribute("user", who).attribute("took_us", took).start());
            });
        }
        Ok((context, span))
    }

    /// [`Self::identify`] by a server that knows enough to do it.
    async fn known(&self, request: &Request, deadline: Instant) -> Result<UserInfo, Status> {
        match self.identify(request) {
            Err(refusal) if self.warmed(&refusal, deadline).await => self.identify(request),
            outcome => outcome,
        }
    }

    /// Who asks, after impersonation.
    fn identify(&self, request: &Request) -> Result<UserInfo, Status> {
        let parts = self.parts()?;
        let caller = parts.authenticator.authenticate(&request.credentials)?;
        let attributes = Attributes::of(&request.info, &[]);
        impersonation::apply(&parts.authorizer, caller, &attributes, &request.credentials.headers)
    }

    async fn limited(
        &self,
        context: &Context,
        work: impl Future<Output = Result<Answer, Status>>,
    ) -> Result<Answer, Status> {
        let _permit = self.limits.admit(context)?;
        if super::limit::is_long(context) {
            return work.await;
        }
        match timeout_at(context.deadline + LAST_WORDS, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(Status::timeout("request did not complete within requested timeout - context deadline exceeded", 0))
            }
        }
    }

    async fn authorized(&self, context: &Context, request: &Request) -> Result<Answer, Status> {
        self.authorize(context, request).await?;
        self.dispatch(context, request).await
    }

    async fn authorize(&self, context: &Context, request: &Request) -> Result<(), Status> {
        let _span = context.trace.map(|_| trireme_telemetry::span("authorize").start());
        match self.judge(context, request) {
            Err(refusal) if self.warmed(&refusal, context.deadline).await => self.judge(context, request)?,
            outcome => outcome?,
        }
        if request.info.is_resource { self.filled(context.deadline).await } else { Ok(()) }
    }

    /// Whether the caller may do it.
    fn judge(&self, context: &Context, request: &Request) -> Result<(), Status> {
        let required = required_fields(request);
        let attributes = Attributes::of(&context.info, &required);
        self.parts()?.authorizer.require(&context.user, &attributes)
    }

    /// Until when the client waits for its answer.
    fn deadline(&self, request: &Request, arrived: Instant) -> Result<Instant, Status> {
        let most = self.request_timeout;
        let Some(text) = request.param("timeout").filter(|text| !text.is_empty()) else { return Ok(arrived + most) };
        let asked = duration::parse(text)
            .map_err(|why| Status::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
        // None, and less than none, are no wish.
        let asked = u64::try_from(asked).ok().filter(|nanoseconds| *nanoseconds > 0).map(Duration::from_nanos);
        Ok(arrived + asked.map_or(most, |asked| asked.min(most)))
    }

    /// The span of the request, and what it means for the causes of its writes.
    fn root_span(&self, request: &Request, context: &mut Context) -> tracing::Span {
        if !is_traced(request) {
            return tracing::Span::none();
        }
        let user = &context.user;
        let carried = Hop::Apiserver.carry(request.traceparent);
        let continues = is_component(user) || user.is_privileged() || user.in_group(auth::user::MONITORING);
        let session = request.session.as_deref().map(|session| self.session_trace(&user.name, session));
        let (parent, link) = match (carried, session) {
            (Some(parent), _) if continues => (Parent::Remote(parent), None),
            (link, Some(id)) => (Parent::RootWithTraceId(id), link),
            (link, None) => (Parent::Root, link),
        };
        context.client_traced = !matches!(parent, Parent::Root);
        let mut span = trireme_telemetry::span(format!("{} {}", method(&request.info.verb), request.info.route()))
            .kind(Kind::Server)
            .parent(parent)
            .attribute("k8s.verb", request.info.verb.clone())
            .attribute("k8s.resource", request.info.group_resource().to_string())
            .attribute("k8s.namespace", request.info.namespace.clone())
            .attribute("k8s.name", request.info.name.clone())
            .attribute("user", user.name.clone())
            .attribute("audit.id", context.audit_id.clone());
        if let Some(link) = link {
            span = span.link(link);
        }
        let span = span.start();
        context.trace = span.trace_parent();
        span
    }

    /// The trace of all requests of one kubectl command.
    fn session_trace(&self, user: &str, session: &str) -> [u8; 16] {
        let mut hash = Sha256::new();
        for part in [self.client.cluster_id().to_string().as_str(), user, session] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        id
    }

    /// Group and resource as metrics name them: only those that there are.
    fn measured(&self, info: &RequestInfo) -> (String, String) {
        match self.kinds.by_resource(&info.group, &info.version, &info.resource) {
            Some(kind) => (kind.group.clone(), kind.plural.clone()),
            None => Default::default(),
        }
    }

    fn close(
        &self,
        context: &Context,
        request: &Request,
        outcome: &Result<Answer, Status>,
        span: &tracing::Span,
        arrived: Instant,
    ) {
        let code = outcome.as_ref().map_or_else(|status| status.code, Answer::code);
        if context.trace.is_some() {
            span.attribute("http.response.status_code", i64::from(code));
            if code >= 500 {
                span.fail(outcome.as_ref().err().map(|status| status.message.clone()).unwrap_or_default());
            }
        }
        let (group, resource) = self.measured(&context.info);
        let labels = [
            ("verb", measured_verb(&context.info.verb)),
            ("group", group),
            ("resource", resource),
            ("code", code.to_string()),
        ];
        metrics::counter!("apiserver_request_total", &labels).increment(1);
        metrics::histogram!("apiserver_request_duration_seconds", &labels[..3]).record(arrived.elapsed().as_secs_f64());
        if let Some(audit) = &self.audit {
            let _span = context.trace.map(|_| {
                let _entered = span.enter();
                trireme_telemetry::span("audit").start()
            });
            audit.record(context, request, outcome, code);
        }
    }
}

/// What a request's verb is called in metrics: anybody may ask with any method, and each name is kept for ever.
fn measured_verb(verb: &str) -> String {
    match verb {
        "head" => "GET".to_owned(),
        "get" | "list" | "watch" | "create" | "post" | "update" | "put" | "patch" | "delete" | "deletecollection"
        | "options" => verb.to_ascii_uppercase(),
        _ => "other".to_owned(),
    }
}

/// Requests for resources are traced, but for heartbeats.
fn is_traced(request: &Request) -> bool {
    request.info.is_resource && !(request.info.group == "coordination.k8s.io" && request.info.resource == "leases")
}

/// The values that a list's or watch's field selector asks for: some authorizers look at them.
fn required_fields(request: &Request) -> Vec<FieldEquals> {
    let Some(text) = request.param("fieldSelector") else { return Vec::new() };
    let Ok(selector) = fields::Selector::parse(text) else { return Vec::new() };
    let equal = selector.requirements().iter().filter(|term| term.operator == fields::Operator::Equals);
    equal.map(|term| FieldEquals { field: term.field.clone(), value: term.value.clone() }).collect()
}

/// The HTTP method that stands for a verb.
fn method(verb: &str) -> &str {
    match verb {
        "get" | "list" | "watch" => "GET",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        other => other,
    }
}
