use super::*;
use crate::cri::names::Annotated;
use crate::cri::state::SandboxState;
use crate::probe::{Kind, Outcome};
use serde_json::{Value, json};

fn pod(spec: Value) -> Pod {
    serde_json::from_value(
        json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1}, "spec": spec}),
    )
    .unwrap()
}

fn run(name: &str, id: &str, stage: Stage, exit_code: i32) -> Observed {
    Observed {
        id: id.into(),
        name: name.into(),
        sandbox_id: "s".into(),
        stage,
        created_at: 1_000_000_000,
        started_at: 1_000_000_000,
        finished_at: if stage == Stage::Exited { 2_000_000_000 } else { 0 },
        exit_code,
        reason: if stage == Stage::Exited { "Error".into() } else { String::new() },
        message: String::new(),
        image: "docker.io/x:1".into(),
        image_ref: "sha256:0".into(),
        log_path: String::new(),
        annotated: Annotated::default(),
        mounts: Vec::new(),
    }
}

fn state(containers: Vec<Observed>) -> PodState {
    let sandbox = SandboxState {
        id: "s".into(),
        attempt: 0,
        ready: true,
        created_at: 0,
        ips: vec!["10.0.0.2".into()],
        host_network: false,
    };
    PodState { sandboxes: vec![sandbox], containers }
}

#[derive(Default)]
struct World {
    previous: PodStatus,
    failures: HashMap<String, StartFailure>,
    probes: Results,
    terminal: bool,
}

impl World {
    fn status(&self, pod: &Pod, state: &PodState) -> PodStatus {
        generate(&Inputs {
            pod,
            state,
            previous: &self.previous,
            failures: &self.failures,
            probes: &self.probes,
            terminal: self.terminal,
            node_ips: &["192.0.2.1".to_owned()],
            runtime_name: "containerd",
            now: Timestamp::from_second(100).unwrap(),
        })
    }
}

fn shown(status: &PodStatus) -> Value {
    serde_json::to_value(status).unwrap()
}

fn condition(status: &PodStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().flatten().find(|condition| condition.type_ == type_).unwrap().clone();
    (found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default())
}

fn triple(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.into(), reason.into(), message.into())
}

#[test]
fn before_anything_runs() {
    let pod = pod(json!({"containers": [{"name": "a", "image": "x"}]}));
    let status = World::default().status(&pod, &PodState::default());
    let json = shown(&status);
    assert_eq!(json["phase"], "Pending");
    assert_eq!(json["containerStatuses"][0]["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!((json["hostIP"].as_str(), json["qosClass"].as_str()), (Some("192.0.2.1"), Some("BestEffort")));
    assert_eq!(
        condition(&status, "PodReadyToStartContainers"),
        triple("False", "PodSandboxNotReady", "no pod sandbox exists")
    );
    assert_eq!(condition(&status, "Initialized"), triple("True", "", ""));
    assert_eq!(
        condition(&status, "Ready"),
        triple("False", "ContainersNotReady", "containers with unready status: [a]")
    );
    assert_eq!(condition(&status, "PodScheduled"), triple("True", "", ""));
}

#[test]
fn running_and_ready() {
    let pod = pod(json!({"containers": [{"name": "a", "image": "x"}]}));
    let status = World::default().status(&pod, &state(vec![run("a", "1", Stage::Running, 0)]));
    let json = shown(&status);
    assert_eq!((json["phase"].as_str(), json["podIP"].as_str()), (Some("Running"), Some("10.0.0.2")));
    let container = &json["containerStatuses"][0];
    assert_eq!(container["containerID"], "containerd://1");
    assert_eq!((container["ready"].as_bool(), container["started"].as_bool()), (Some(true), Some(true)));
    assert_eq!(container["state"]["running"]["startedAt"], "1970-01-01T00:00:01Z");
    assert_eq!(condition(&status, "Ready").0, "True");
    assert_eq!(status.conditions.unwrap()[0].observed_generation, Some(1));
}

#[test]
fn readiness_waits_for_its_probe() {
    let pod = pod(json!({"containers": [{"name": "a", "image": "x", "readinessProbe": {"tcpSocket": {"port": 1}}}]}));
    let mut world = World::default();
    let running = state(vec![run("a", "1", Stage::Running, 0)]);
    assert_eq!(condition(&world.status(&pod, &running), "Ready").0, "False");
    world.probes.set(Outcome { container_id: "1".into(), kind: Kind::Readiness, success: true });
    let ready = world.status(&pod, &running);
    assert_eq!(condition(&ready, "Ready").0, "True");
    // A kubelet that starts anew knows no results yet, and what was ready stays so.
    let restarted = World { previous: ready, ..World::default() };
    assert_eq!(condition(&restarted.status(&pod, &running), "Ready").0, "True");
}

#[test]
fn a_container_in_its_pause() {
    let pod = pod(json!({"restartPolicy": "Always", "containers": [{"name": "a", "image": "x"}]}));
    let mut world = World::default();
    world
        .failures
        .insert("a".into(), StartFailure { reason: "CrashLoopBackOff".into(), message: "back-off 10s".into() });
    let mut crashed = run("a", "2", Stage::Exited, 3);
    crashed.annotated.restart_count = 1;
    let status = world.status(&pod, &state(vec![crashed, run("a", "1", Stage::Exited, 3)]));
    let container = &shown(&status)["containerStatuses"][0];
    assert_eq!(container["state"], json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}));
    assert_eq!(container["lastState"]["terminated"]["containerID"], "containerd://2");
    assert_eq!(container["restartCount"], 1);
    assert_eq!(status.phase.as_deref(), Some("Running"), "it will run again");
}

#[test]
fn phases_of_pods_that_end() {
    for (policy, code, phase) in [
        ("Never", 0, "Succeeded"),
        ("Never", 1, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, "Running"),
        ("Always", 0, "Running"),
    ] {
        let pod = pod(json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x"}]}));
        let status = World::default().status(&pod, &state(vec![run("a", "1", Stage::Exited, code)]));
        assert_eq!(status.phase.as_deref(), Some(phase), "{policy} after {code}");
    }
    let pod = pod(json!({"restartPolicy": "Always", "containers": [{"name": "a", "image": "x"}]}));
    let deleted = World { terminal: true, ..World::default() };
    let status = deleted.status(&pod, &state(vec![run("a", "1", Stage::Exited, 143)]));
    assert_eq!(status.phase.as_deref(), Some("Failed"), "it was stopped for good");
    assert_eq!(condition(&status, "Ready"), triple("False", "PodFailed", ""));
}

#[test]
fn a_finished_pod_stays_finished() {
    let mut pod = pod(json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}));
    pod.status = Some(PodStatus { phase: Some("Succeeded".into()), ..PodStatus::default() });
    assert_eq!(World::default().status(&pod, &PodState::default()).phase.as_deref(), Some("Succeeded"));
}

#[test]
fn init_containers_hold_the_phase() {
    let pod = pod(
        json!({"restartPolicy": "Never", "initContainers": [{"name": "i", "image": "x"}], "containers": [{"name": "a", "image": "x"}]}),
    );
    let world = World::default();
    let running = world.status(&pod, &state(vec![run("i", "1", Stage::Running, 0)]));
    assert_eq!(running.phase.as_deref(), Some("Pending"));
    assert_eq!(shown(&running)["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(
        condition(&running, "Initialized"),
        triple("False", "ContainersNotInitialized", "containers with incomplete status: [i]")
    );
    let failed = world.status(&pod, &state(vec![run("i", "1", Stage::Exited, 1)]));
    assert_eq!(failed.phase.as_deref(), Some("Failed"));
    let done = world.status(&pod, &state(vec![run("i", "1", Stage::Exited, 0), run("a", "2", Stage::Running, 0)]));
    assert_eq!((done.phase.as_deref(), condition(&done, "Initialized").0.as_str()), (Some("Running"), "True"));
    let forgotten = world.status(&pod, &state(vec![run("a", "2", Stage::Running, 0)]));
    assert_eq!(shown(&forgotten)["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
}

#[test]
fn a_container_that_vanished_is_not_pending() {
    let pod = pod(json!({"containers": [{"name": "a", "image": "x"}]}));
    let before = World::default().status(&pod, &state(vec![run("a", "1", Stage::Running, 0)]));
    let world = World { previous: before, ..World::default() };
    let container = &shown(&world.status(&pod, &state(Vec::new())))["containerStatuses"][0];
    assert_eq!(container["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(container["restartCount"], 1);
}

#[test]
fn the_time_of_a_condition_is_that_of_its_change() {
    let pod = pod(json!({"containers": [{"name": "a", "image": "x"}]}));
    let first = World::default().status(&pod, &PodState::default());
    let old = Timestamp::from_second(7).unwrap();
    let mut previous = first;
    previous.conditions.iter_mut().flatten().for_each(|condition| condition.last_transition_time = Some(time(old)));
    let world = World { previous, ..World::default() };
    let status = world.status(&pod, &state(vec![run("a", "1", Stage::Running, 0)]));
    let at = |type_: &str| {
        let all = status.conditions.as_deref().unwrap();
        all.iter().find(|condition| condition.type_ == type_).unwrap().last_transition_time.clone().unwrap().0
    };
    assert_eq!((at("PodScheduled"), at("Ready").as_second()), (old, 100));
}

#[test]
fn conditions_of_others_are_kept_and_gates_count() {
    let mut pod =
        pod(json!({"readinessGates": [{"conditionType": "x/y"}], "containers": [{"name": "a", "image": "x"}]}));
    let running = state(vec![run("a", "1", Stage::Running, 0)]);
    let closed = World::default().status(&pod, &running);
    let text = "corresponding condition of pod readiness gate \"x/y\" does not exist.";
    assert_eq!(condition(&closed, "Ready"), triple("False", "ReadinessGatesNotReady", text));
    pod.status = serde_json::from_value(json!({"conditions": [{"type": "x/y", "status": "True"}]})).unwrap();
    let open = World::default().status(&pod, &running);
    assert_eq!((condition(&open, "Ready").0, condition(&open, "x/y").0), ("True".into(), "True".into()));
}
