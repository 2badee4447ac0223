use super::*;
use clap::Parser as _;
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use tokio::sync::mpsc;

const BEFORE: &str = "2026-01-01T00:00:00Z";
const LONG: Duration = Duration::from_secs(20);

/// What the kubelet does.
#[derive(Debug, PartialEq)]
enum Done {
    Looked,
    Wrote(Value),
}

/// An API server that has one node already.
struct Stored {
    conditions: Mutex<Vec<Value>>,
    done: mpsc::UnboundedSender<Done>,
}

#[async_trait::async_trait]
impl Nodes for Stored {
    async fn get(&self, _: &str) -> Result<Node> {
        let _ = self.done.send(Done::Looked);
        let conditions = self.conditions.lock().clone();
        Ok(serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}})).unwrap())
    }
    async fn create(&self, _: &Node) -> Result<Node> {
        Err(Error::Exists("n".into()))
    }
    async fn patch(&self, _: &str, _: Value) -> Result<Node> {
        Ok(Node::default())
    }
    async fn patch_status(&self, _: &str, patch: Value) -> Result<Node> {
        self.conditions.lock().clone_from(patch["status"]["conditions"].as_array().unwrap());
        let _ = self.done.send(Done::Wrote(patch));
        Ok(Node::default())
    }
    async fn lease(&self, _: &str) -> Result<Lease> {
        Err(Error::NotFound("n".into()))
    }
    async fn create_lease(&self, lease: &Lease) -> Result<Lease> {
        Ok(lease.clone())
    }
    async fn update_lease(&self, lease: &Lease) -> Result<Lease> {
        Ok(lease.clone())
    }
}

/// The events.
#[derive(Default)]
struct Told(Mutex<Vec<(&'static str, String)>>);

impl Events for Told {
    fn pod(&self, _: &k8s_openapi::api::core::v1::Pod, _: Option<&str>, _: bool, _: &'static str, _: String) {}

    fn node(&self, warning: bool, reason: &'static str, message: String) {
        assert!(!warning, "upstream's are normal");
        self.0.lock().push((reason, message));
    }
}

/// A kubelet of a machine that is well, and the API server that it sees.
struct Stage {
    stored: Arc<Stored>,
    told: Arc<Told>,
    done: mpsc::UnboundedReceiver<Done>,
    _seen: (watch::Sender<Condition>, watch::Sender<Option<Instant>>),
    task: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn new(stored: &[(&str, &str)]) -> Self {
        let flags = [
            "x",
            "--hostname-override=n",
            "--node-status-update-frequency=10ms",
            "--eviction-hard=memory.available<0%",
        ];
        let (runtime_told, runtime) = watch::channel(Condition { runtime: Ok(()), network: Ok(()) });
        let (look_told, last_look) = watch::channel(Some(Instant::now()));
        let (done, does) = mpsc::unbounded_channel();
        let conditions = stored.iter().map(|(type_, status)| condition(type_, status)).collect();
        let stored = Arc::new(Stored { conditions: Mutex::new(conditions), done });
        let told = Arc::new(Told::default());
        let registration = Registration {
            config: Config::resolve(&crate::Flags::parse_from(flags)).unwrap(),
            machine: Machine::default(),
            port: 1,
            cri: Cri::absent(),
            runtime,
            last_look,
            nodes: stored.clone(),
            events: told.clone(),
        };
        let task = tokio::spawn(registration.run());
        Self { stored, told, done: does, _seen: (runtime_told, look_told), task }
    }

    async fn next(&mut self) -> Done {
        tokio::time::timeout(LONG, self.done.recv()).await.unwrap().unwrap()
    }

    /// The conditions that are written next.
    async fn written(&mut self) -> Vec<Value> {
        loop {
            if let Done::Wrote(patch) = self.next().await {
                return patch["status"]["conditions"].as_array().unwrap().clone();
            }
        }
    }

    /// The next looks write nothing.
    async fn is_content(&mut self) {
        for _ in 0..4 {
            assert_eq!(self.next().await, Done::Looked);
        }
    }

    fn events(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.told.0.lock()).into_iter().map(|(reason, _)| reason).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn condition(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "lastTransitionTime": BEFORE, "lastHeartbeatTime": BEFORE})
}

fn of<'a>(all: &'a [Value], type_: &str) -> &'a Value {
    all.iter().find(|condition| condition["type"] == type_).unwrap()
}

#[tokio::test]
async fn a_restart_is_no_transition() {
    let mut stage = Stage::new(&[("MemoryPressure", "False"), ("Ready", "Unknown")]);
    let all = stage.written().await;
    assert_eq!(of(&all, "MemoryPressure")["lastTransitionTime"], BEFORE, "it did not change");
    assert_eq!(of(&all, "Ready")["status"], "True");
    assert_ne!(of(&all, "Ready")["lastTransitionTime"], BEFORE, "it did");
    stage.is_content().await;
}

/// As the node life cycle controller leaves the node of a kubelet that was silent for a while.
#[tokio::test]
async fn what_others_wrote_is_put_right_at_the_next_look() {
    let mut stage = Stage::new(&[]);
    stage.written().await;
    stage.is_content().await;
    let given_up = |mut condition: Value| {
        condition["status"] = json!("Unknown");
        condition["reason"] = json!("NodeStatusUnknown");
        condition["message"] = json!("Kubelet stopped posting node status.");
        condition["lastTransitionTime"] = json!(BEFORE);
        condition
    };
    for which in ["Ready", "DiskPressure"] {
        for condition in stage.stored.conditions.lock().iter_mut().filter(|one| one["type"] == which) {
            *condition = given_up(condition.clone());
        }
        let all = stage.written().await;
        assert!(of(&all, which)["status"] != "Unknown" && of(&all, which)["lastTransitionTime"] != BEFORE, "{all:?}");
        assert!(of(&all, which)["reason"].as_str().unwrap().starts_with("Kubelet"), "{all:?}");
        stage.is_content().await;
    }
}

#[tokio::test]
async fn people_see_what_changed() {
    let mut stage = Stage::new(&[]);
    stage.written().await;
    stage.is_content().await;
    assert_eq!(stage.told.0.lock()[0], ("Starting", "Starting kubelet.".to_owned()));
    let sufficient = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"];
    assert_eq!(stage.told.0.lock()[1].1, "Node n status is now: NodeHasSufficientMemory");
    assert_eq!(stage.events()[1..], sufficient);
    for condition in stage.stored.conditions.lock().iter_mut().filter(|one| one["type"] == "Ready") {
        condition["status"] = json!("Unknown");
    }
    stage.written().await;
    stage.is_content().await;
    assert_eq!(stage.events(), ["NodeReady"]);
}
