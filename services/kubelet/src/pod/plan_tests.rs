use super::*;
use crate::cri::names::Annotated;
use crate::cri::state::SandboxState;
use crate::probe::{Kind, Outcome};
use serde_json::json;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})).unwrap()
}

fn two(policy: &str) -> Pod {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}))
}

fn sandbox(attempt: u32, ready: bool) -> SandboxState {
    SandboxState {
        id: format!("s{attempt}"),
        attempt,
        ready,
        created_at: attempt.into(),
        ips: vec!["1.1.1.1".into()],
        host_network: false,
    }
}

fn run(name: &str, stage: Stage, exit_code: i32) -> ContainerState {
    ContainerState {
        id: format!("{name}-id"),
        name: name.into(),
        sandbox_id: "s0".into(),
        stage,
        created_at: 1,
        started_at: 1,
        finished_at: 2,
        exit_code,
        reason: String::new(),
        message: String::new(),
        image: "i".into(),
        image_ref: "i@sha256:0".into(),
        log_path: String::new(),
        annotated: Annotated::default(),
        mounts: Vec::new(),
    }
}

fn state(containers: Vec<ContainerState>) -> PodState {
    PodState { sandboxes: vec![sandbox(0, true)], containers }
}

fn planned(pod: &Pod, state: &PodState) -> Plan {
    plan(pod, state, &Results::default())
}

fn failed(id: &str, kind: Kind) -> Results {
    let mut results = Results::default();
    results.set(Outcome { container_id: id.into(), kind, success: false });
    results
}

#[test]
fn a_new_pod_gets_a_sandbox_and_its_containers() {
    let plan = planned(&two("Always"), &PodState::default());
    assert_eq!(plan.create_sandbox, Some(0));
    assert_eq!(plan.start, [0, 1]);
}

#[test]
fn what_runs_is_left_alone() {
    let running = state(vec![run("a", Stage::Running, 0), run("b", Stage::Running, 0)]);
    let plan = planned(&two("Always"), &running);
    assert_eq!(plan, Plan { sandbox_id: Some("s0".into()), ..Plan::default() });
}

#[test]
fn restart_policies() {
    for (policy, code, restarts) in [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 1, false),
    ] {
        let half = state(vec![run("a", Stage::Exited, code), run("b", Stage::Running, 0)]);
        let plan = planned(&two(policy), &half);
        assert_eq!(!plan.start.is_empty(), restarts, "{policy} after {code}");
        assert!(!plan.kill_pod, "the other one still runs");
    }
}

#[test]
fn a_pod_that_is_done_is_stopped() {
    let done = state(vec![run("a", Stage::Exited, 0), run("b", Stage::Exited, 0)]);
    let plan = planned(&two("OnFailure"), &done);
    assert!(plan.kill_pod && plan.create_sandbox.is_none() && plan.start.is_empty());
}

#[test]
fn a_dead_sandbox_is_replaced_unless_there_is_nothing_left_to_run() {
    let mut dead = state(vec![run("a", Stage::Exited, 0), run("b", Stage::Exited, 0)]);
    dead.sandboxes[0].ready = false;
    assert_eq!(planned(&two("Always"), &dead).create_sandbox, Some(1));
    assert_eq!(planned(&two("OnFailure"), &dead).create_sandbox, None, "all have succeeded");
    assert_eq!(planned(&two("Never"), &dead).create_sandbox, None, "none may run again");
    dead.containers[1].exit_code = 1;
    let plan = planned(&two("OnFailure"), &dead);
    assert_eq!((plan.create_sandbox, plan.start), (Some(1), vec![1]), "only the one that failed runs again");
}

#[test]
fn sandboxes_are_judged() {
    let pod = two("Always");
    let mut doubled = state(Vec::new());
    doubled.sandboxes.insert(0, sandbox(1, true));
    let verdict = judge_sandbox(&pod, &doubled);
    assert!(verdict.changed);
    assert_eq!(verdict.message, "multiple pod sandboxes are ready and need to be reconciled");
    let mut without_ip = state(Vec::new());
    without_ip.sandboxes[0].ips.clear();
    assert_eq!(judge_sandbox(&pod, &without_ip).message, "pod sandbox has no IP address");
}

#[test]
fn probes_that_failed_restart_a_container() {
    let running = state(vec![run("a", Stage::Running, 0), run("b", Stage::Running, 0)]);
    let plan = plan(&two("Always"), &running, &failed("a-id", Kind::Liveness));
    assert_eq!(plan.kill.len(), 1);
    assert_eq!(plan.kill[0].message, "Container a failed liveness probe, will be restarted");
    assert_eq!((plan.kill[0].reason, plan.start), (KillReason::LivenessProbe, vec![0]));
    let plan = super::plan(&two("Never"), &running, &failed("a-id", Kind::Startup));
    assert_eq!(plan.kill[0].message, "Container a failed startup probe");
    assert!(plan.start.is_empty());
}

#[test]
fn a_new_image_restarts_a_container() {
    let mut running = state(vec![run("a", Stage::Running, 0), run("b", Stage::Running, 0)]);
    running.containers[0].annotated.hash = Some(1);
    let plan = planned(&two("Never"), &running);
    assert_eq!(plan.kill[0].message, "Container a definition changed, will be restarted");
    assert_eq!(plan.start, [0], "whatever the policy");
}

fn with_init(policy: &str, sidecar: bool) -> Pod {
    let first = if sidecar {
        json!({"name": "i0", "image": "i", "restartPolicy": "Always"})
    } else {
        json!({"name": "i0", "image": "i"})
    };
    pod(
        json!({"restartPolicy": policy, "initContainers": [first, {"name": "i1", "image": "i"}], "containers": [{"name": "a", "image": "i"}]}),
    )
}

#[test]
fn init_containers_run_one_after_the_other() {
    let pod = with_init("Always", false);
    assert_eq!(planned(&pod, &PodState::default()).start_init, [0]);
    assert_eq!(planned(&pod, &state(Vec::new())).start_init, [0]);
    assert!(planned(&pod, &state(vec![run("i0", Stage::Running, 0)])).start_init.is_empty());
    assert_eq!(planned(&pod, &state(vec![run("i0", Stage::Exited, 0)])).start_init, [1]);
    let done = planned(&pod, &state(vec![run("i1", Stage::Exited, 0)]));
    assert_eq!((done.start_init.len(), done.start), (0, vec![0]), "the runtime may have lost the first one");
}

#[test]
fn an_init_container_that_failed_runs_again_or_ends_the_pod() {
    let failed = state(vec![run("i0", Stage::Exited, 1)]);
    assert_eq!(planned(&with_init("OnFailure", false), &failed).start_init, [0]);
    let never = planned(&with_init("Never", false), &failed);
    assert!(never.kill_pod && never.start_init.is_empty());
}

#[test]
fn sidecars_keep_running_and_let_the_next_one_start() {
    let pod = with_init("Always", true);
    assert_eq!(planned(&pod, &state(vec![run("i0", Stage::Running, 0)])).start_init, [1]);
    let all = state(vec![run("i0", Stage::Exited, 0), run("i1", Stage::Exited, 0), run("a", Stage::Running, 0)]);
    let plan = planned(&pod, &all);
    assert_eq!(
        (plan.start_init, plan.start.len(), plan.kill_pod),
        (vec![0], 0, false),
        "it is restarted beside the others"
    );
}

#[test]
fn a_sidecar_does_not_keep_a_pod_that_is_done() {
    let pod = with_init("Never", true);
    let done = state(vec![run("i0", Stage::Running, 0), run("i1", Stage::Exited, 0), run("a", Stage::Exited, 0)]);
    assert!(planned(&pod, &done).kill_pod);
}

#[test]
fn an_unknown_container_is_killed_before_it_is_started_again() {
    let plan = planned(&two("Always"), &state(vec![run("a", Stage::Unknown, 0), run("b", Stage::Running, 0)]));
    assert_eq!((plan.kill.len(), plan.start), (1, vec![0]));
}

#[test]
fn nothing_is_started_in_a_pod_that_is_being_deleted() {
    let mut pod = two("Always");
    pod.metadata.deletion_timestamp = Some(super::super::status::time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    assert!(planned(&pod, &state(vec![run("a", Stage::Exited, 1), run("b", Stage::Running, 0)])).start.is_empty());
}
