//! The client against a small API server in memory, over both doors.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]
#![allow(clippy::result_large_err, reason = "the error is the Status of the API")]

mod claims;
mod controllers;
mod events;
mod fake;
mod grpc_door;
mod informers;
mod rest_door;
mod terms;
mod unreadable;
mod verbs;

use fake::Fake;
use trireme_client::{Client, Config, Tasks};

/// A way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Rest,
    Grpc,
}

/// A server, a client of it over one door and the tasks of a test.
struct Stage {
    door: Door,
    fake: Fake,
    client: Client,
    tasks: Tasks,
}

impl Stage {
    async fn new(door: Door) -> Self {
        let fake = Fake::default();
        let client = connect(door, &fake).await;
        Self { door, fake, client, tasks: Tasks::default() }
    }
}

async fn connect(door: Door, fake: &Fake) -> Client {
    let rest = rest_door::serve(fake.clone()).await;
    let kubeconfig = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c}}}}]\nclusters: [{{name: c, cluster: {{server: 'http://{rest}'}}}}]\n"
    );
    let file = std::env::temp_dir().join(format!("trireme-client-{}-{rest}.yaml", std::process::id()));
    std::fs::write(&file, kubeconfig).unwrap();
    let endpoint = match door {
        Door::Rest => None,
        Door::Grpc => Some(format!("http://{}", grpc_door::serve(fake.clone()).await)),
    };
    let config = Config::from_kubeconfig(&file, endpoint).unwrap();
    std::fs::remove_file(&file).unwrap();
    Client::new(config).unwrap()
}

/// Makes a test of each function for each door.
macro_rules! over_both_doors {
    ($($name:ident),* $(,)?) => {
        mod rest {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(crate::Stage::new(crate::Door::Rest).await).await; })*
        }
        mod grpc {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(crate::Stage::new(crate::Door::Grpc).await).await; })*
        }
    };
}
pub(crate) use over_both_doors;
