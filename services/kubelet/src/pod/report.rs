//! Statuses on their way to the API server.
//!
//! A Pod's worker must not wait for the API server: a container is restarted though the whole control plane is down. So
//! this actor keeps, for each Pod, the newest status that was not yet written, and writes one at a time a Pod until it is.

use super::conditions::OWNED;
use super::sync::Desired;
use super::view;
use super::written::Written;
use crate::api::Pods;
use crate::error::{Error, Result};
use actix::{Actor, ActorFutureExt as _, AsyncContext as _, Context, Handler, Message, WrapFuture as _};
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument as _;
use trireme_service::actor::{self, Address, Limits};

/// The object that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another one by that name is not written.
    pub uid: String,
}

impl Target {
    /// The Pod itself, or what mirrors it; none when nothing in the API shows it.
    pub fn of(desired: &Desired) -> Option<Self> {
        let pod = match &desired.mirror {
            Some(mirror) => mirror,
            None if view::is_static(&desired.pod) => return None,
            None => &desired.pod,
        };
        Some(Self {
            namespace: view::namespace(pod).to_owned(),
            name: view::name(pod).to_owned(),
            uid: view::uid(pod).to_owned(),
        })
    }
}

/// A status to be written.
#[derive(Debug, Clone)]
pub struct Report {
    /// What is written.
    pub target: Target,
    /// The status.
    pub status: PodStatus,
    /// The sync that found it.
    pub span: tracing::Span,
    /// The Pod is gone from this node: delete it after its status is written.
    pub delete: bool,
    /// Where it is told what became of it.
    pub written: Written,
    /// Its number there.
    pub number: u64,
}

impl Message for Report {
    type Result = ();
}

/// The reporter's address. Without an API server reports go nowhere.
#[derive(Clone)]
pub struct Reporter {
    address: Option<Address<Writer>>,
}

impl Reporter {
    /// Writes through this API.
    pub fn start(pods: Option<Arc<dyn Pods>>) -> Self {
        let address = pods.map(|pods| {
            let limits = Limits { mailbox: 4096, ..Limits::default() };
            actor::spawn("status reporter", move || Writer { pods: pods.clone(), slots: HashMap::new() }, limits)
        });
        Self { address }
    }

    /// Leaves a report. A later one about the same Pod replaces it if it was not written yet.
    pub fn send(&self, report: Report) {
        let Some(address) = &self.address else { return };
        let (written, number) = (report.written.clone(), report.number);
        if let Err(error) = address.try_send(report) {
            // The next sync finds that the API server has an older status, and reports again.
            written.settle(number, None);
            tracing::warn!(%error, "a status report was lost");
        }
    }
}

/// The actor.
struct Writer {
    pods: Arc<dyn Pods>,
    slots: HashMap<String, Slot>,
}

/// One Pod: what waits while another report is being written.
#[derive(Default)]
struct Slot {
    waiting: Option<Report>,
}

impl Actor for Writer {
    type Context = Context<Self>;
}

impl Handler<Report> for Writer {
    type Result = ();

    fn handle(&mut self, report: Report, ctx: &mut Context<Self>) {
        let uid = report.target.uid.clone();
        match self.slots.get_mut(&uid) {
            Some(slot) => {
                let delete = report.delete || slot.waiting.as_ref().is_some_and(|waiting| waiting.delete);
                slot.waiting = Some(Report { delete, ..report });
            }
            None => {
                self.slots.insert(uid, Slot::default());
                self.write(report, ctx);
            }
        }
    }
}

impl Writer {
    fn write(&mut self, report: Report, ctx: &mut Context<Self>) {
        let (pods, span) = (self.pods.clone(), report.span.clone());
        let done = write_until_done(pods, report).instrument(span).into_actor(self);
        ctx.spawn(done.map(|uid, writer, ctx| match writer.slots.get_mut(&uid).and_then(|slot| slot.waiting.take()) {
            Some(next) => writer.write(next, ctx),
            None => {
                writer.slots.remove(&uid);
            }
        }));
    }
}

/// Tries until the API server has taken it, or will never take it.
async fn write_until_done(pods: Arc<dyn Pods>, report: Report) -> String {
    let revision = try_until_done(&*pods, &report).await;
    report.written.settle(report.number, revision);
    report.target.uid
}

/// The revision at which it was written, if it was.
async fn try_until_done(pods: &dyn Pods, report: &Report) -> Option<i64> {
    let mut pause = Duration::from_millis(100);
    loop {
        match write_once(pods, report).await {
            Ok(revision) => return Some(revision),
            // One that is gone, or another one by that name, needs no status.
            Err(Error::NotFound(_)) => return None,
            Err(Error::Conflict(error)) if error.contains("UID") => return None,
            Err(Error::Refused(error)) => {
                tracing::error!(error, pod = report.target.name, "the API server does not take a status");
                return None;
            }
            Err(error) => {
                tracing::info!(%error, pod = report.target.name, "a status was not written, will try again");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

async fn write_once(pods: &dyn Pods, report: &Report) -> Result<i64> {
    let Target { namespace, name, uid } = &report.target;
    let written = pods.patch_status(namespace, name, patch(uid, &report.status)).await;
    // Whatever becomes of its last status, a Pod that is gone from its node goes from the API.
    if report.delete && matches!(written, Ok(_) | Err(Error::Refused(_))) {
        pods.delete_now(namespace, name, uid).await?;
    }
    let version = written?.metadata.resource_version.unwrap_or_default();
    Ok(version.parse().unwrap_or_default())
}

/// A strategic merge patch of all that the kubelet owns in a status; what is not said in it is taken away.
fn patch(uid: &str, status: &PodStatus) -> Value {
    let mut body = json!({
        "phase": status.phase,
        "reason": status.reason,
        "message": status.message,
        "startTime": status.start_time,
        "hostIP": status.host_ip,
        "hostIPs": status.host_ips,
        "podIP": status.pod_ip,
        "podIPs": status.pod_ips,
        "containerStatuses": status.container_statuses,
        "initContainerStatuses": status.init_container_statuses,
        "ephemeralContainerStatuses": status.ephemeral_container_statuses,
        "observedGeneration": status.observed_generation,
        "qosClass": status.qos_class,
    });
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if let Value::Object(fields) = &mut body {
        // Lists and times that are not there need not be taken away: nobody but the kubelet makes them.
        let optional = ["qosClass", "startTime", "hostIP", "hostIPs", "observedGeneration"];
        fields.retain(|key, value| !value.is_null() || !optional.contains(&key.as_str()));
        // Merged by address, an old one would stay.
        for addresses in ["hostIPs", "podIPs"] {
            if let Some(Value::Array(list)) = fields.get_mut(addresses) {
                list.push(json!({"$patch": "replace"}));
            }
        }
        // Those of others keep their place and are not written.
        let ours = conditions.iter().filter(|condition| OWNED.contains(&condition.type_.as_str()));
        fields.insert("conditions".into(), ours.map(condition).collect());
        let order: Value = conditions.iter().map(|condition| json!({"type": condition.type_})).collect();
        fields.insert("$setElementOrder/conditions".into(), order);
    }
    json!({"metadata": {"uid": uid}, "status": body})
}

fn condition(condition: &PodCondition) -> Value {
    json!({
        "type": condition.type_,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": condition.last_probe_time,
        "lastTransitionTime": condition.last_transition_time,
        "observedGeneration": condition.observed_generation,
    })
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("address", &self.address).finish()
    }
}
