//! Background tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::timeout;
use trireme_service::CancellationToken;
use trireme_service::tasks::{OnPanic, Tasks};
use trireme_testkit::poll::PATIENCE;

#[tokio::test]
async fn a_panic_is_logged_or_ends_the_service() {
    let tasks = Tasks::new(CancellationToken::new());
    tasks.spawn("spare", OnPanic::Log, async { panic!("not needed") });
    tasks.spawn("needed", OnPanic::Shutdown, async { panic!("can't go on") });
    timeout(PATIENCE, tasks.shutdown().cancelled()).await.unwrap();
    assert!(tasks.finish(PATIENCE).await.is_empty());
    assert_eq!(tasks.failure().as_deref(), Some("task needed panicked: can't go on"));
}

#[tokio::test]
async fn a_supervised_task_is_made_again_until_it_returns() {
    let tasks = Tasks::new(CancellationToken::new());
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    tasks.supervise("loop", move || {
        let count = count.fetch_add(1, Ordering::SeqCst);
        async move { assert!(count >= 3, "fall {count}") }
    });
    assert!(tasks.finish(PATIENCE).await.is_empty());
    assert_eq!(made.load(Ordering::SeqCst), 4);
    assert_eq!(tasks.failure(), None);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_is_named() {
    let tasks = Tasks::new(CancellationToken::new());
    tasks.spawn("stubborn", OnPanic::Log, std::future::pending());
    tasks.spawn_until_shutdown("obedient", OnPanic::Log, std::future::pending());
    tasks.shutdown().cancel();
    assert_eq!(tasks.finish(PATIENCE).await, ["stubborn"]);
}
