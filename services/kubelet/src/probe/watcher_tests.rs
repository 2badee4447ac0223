use super::*;
use std::sync::Mutex;

/// Answers as it is told.
struct Script(Arc<Mutex<std::vec::IntoIter<Result<(), Failure>>>>);

#[async_trait]
impl Question for Script {
    async fn ask(&self, _: Duration) -> Result<(), Failure> {
        self.0.lock().unwrap().next().expect("the script goes on")
    }
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Events for Told {
    fn pod(&self, _: &Pod, container: Option<&str>, warning: bool, reason: &'static str, message: String) {
        assert_eq!((container, warning, reason), (Some("c"), true, "Unhealthy"));
        self.0.lock().unwrap().push(message);
    }

    fn node(&self, _: bool, _: &'static str, _: String) {}
}

/// What a probe reports, and the events, for a script of answers: `+` yes, `-` no, `?` nobody could ask.
async fn watched(kind: Kind, failure_threshold: i32, script: &str) -> (Vec<bool>, Vec<String>) {
    let answers: Vec<_> = script
        .chars()
        .map(|answer| match answer {
            '+' => Ok(()),
            '-' => Err(Failure::Failed("no".into())),
            _ => Err(Failure::Errored("the runtime is away".into())),
        })
        .collect();
    let script = Arc::new(Mutex::new(answers.into_iter()));
    let told = Arc::new(Told::default());
    let reported = Arc::new(Mutex::new(Vec::new()));
    let sink = reported.clone();
    let watcher = Watcher {
        pod: Arc::default(),
        container: "c".into(),
        container_id: "id".into(),
        kind,
        probe: Probe { failure_threshold: Some(failure_threshold), success_threshold: Some(1), ..Probe::default() },
        started_at: 0,
        question: Box::new(Script(script.clone())),
        events: told.clone(),
        report: Arc::new(move |outcome: Outcome| sink.lock().unwrap().push(outcome.success)),
    };
    let mut run = Run::default();
    while !script.lock().unwrap().as_slice().is_empty() {
        if watcher.look(&mut run, Duration::from_secs(1)).await {
            break;
        }
    }
    let reported = reported.lock().unwrap().clone();
    let told = told.0.lock().unwrap().clone();
    (reported, told)
}

#[tokio::test]
async fn a_probe_that_could_not_run_says_nothing_of_the_container() {
    for kind in [Kind::Liveness, Kind::Readiness, Kind::Startup] {
        // Each look takes three attempts; none of five looks told anything.
        let (reported, told) = watched(kind, 1, &"???".repeat(5)).await;
        assert!(reported.is_empty(), "{kind:?}");
        let unknown = format!("{} probe errored and resulted in unknown state: the runtime is away", kind.title());
        assert_eq!(told, vec![unknown; 5]);
    }
}

#[tokio::test]
async fn what_was_known_before_stays_as_it_was() {
    let (reported, _) = watched(Kind::Readiness, 1, "+??????").await;
    assert_eq!(reported, [true]);
    // Neither does it end a run of failures, nor is it one of them.
    let (reported, _) = watched(Kind::Liveness, 3, "-???-???").await;
    assert!(reported.is_empty());
    let (reported, _) = watched(Kind::Liveness, 3, "-???-???-").await;
    assert_eq!(reported, [false]);
}

#[tokio::test]
async fn an_attempt_that_could_not_run_is_made_again_at_once() {
    let (reported, told) = watched(Kind::Liveness, 1, "??-").await;
    assert_eq!((reported, told), (vec![false], vec!["Liveness probe failed: no".to_owned()]));
}

#[tokio::test]
async fn a_runtime_that_is_away_is_no_answer() {
    let question = Asked {
        container: Container { name: "c".into(), ..Container::default() },
        container_id: "id".into(),
        probe: serde_json::from_value(serde_json::json!({"exec": {"command": ["true"]}})).unwrap(),
        ip: "127.0.0.1".into(),
        cri: Cri::absent(),
    };
    let answer = question.ask(Duration::from_secs(1)).await;
    assert!(matches!(answer, Err(Failure::Errored(_))), "{answer:?}");
}
