//! Supervised actors survive their handlers' panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::{Actor, AsyncContext as _, Context, Handler, Message, ResponseActFuture, WrapFuture as _};
use tokio::sync::Notify;
use tokio::time::timeout;
use trireme_service::actor::{self, ActorError, Address, Limits};
use trireme_testkit::poll::{self, PATIENCE};

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    stopped: AtomicUsize,
    slow: AtomicUsize,
    gate: Notify,
}

struct Counter {
    count: u64,
    counts: Arc<Counts>,
}

#[derive(Message)]
#[rtype(result = "u64")]
struct Add(u64);

#[derive(Message)]
#[rtype(result = "()")]
struct Panic;

/// Holds the actor's only thread of control until the gate opens.
#[derive(Message)]
#[rtype(result = "()")]
struct Hold;

#[derive(Message)]
#[rtype(result = "()")]
struct Slow;

impl Actor for Counter {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.counts.stopped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Handler<Add> for Counter {
    type Result = u64;

    fn handle(&mut self, Add(more): Add, _: &mut Self::Context) -> u64 {
        self.count += more;
        self.count
    }
}

impl Handler<Panic> for Counter {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Self::Context) {
        panic!("as asked");
    }
}

impl Handler<Hold> for Counter {
    type Result = ();

    fn handle(&mut self, _: Hold, context: &mut Self::Context) {
        let counts = Arc::clone(&self.counts);
        context.wait(async move { counts.gate.notified().await }.into_actor(self));
    }
}

impl Handler<Slow> for Counter {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _: Slow, _: &mut Self::Context) -> Self::Result {
        let counts = Arc::clone(&self.counts);
        counts.slow.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { counts.gate.notified().await }.into_actor(self))
    }
}

fn counter(limits: Limits) -> (Address<Counter>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let shared = Arc::clone(&counts);
    let make = move || {
        shared.made.fetch_add(1, Ordering::SeqCst);
        Counter { count: 0, counts: Arc::clone(&shared) }
    };
    (actor::spawn("counter", make, limits), counts)
}

#[tokio::test]
async fn a_panic_costs_the_message_not_the_actor() {
    let (address, counts) = counter(Limits::default());
    let other = address.clone();
    assert_eq!(address.send(Add(2)).await, Ok(2));
    assert_eq!(address.send(Panic).await, Err(ActorError::Restarted));
    // The same addresses reach the new actor, which starts from the factory's state.
    assert_eq!(address.send(Add(3)).await, Ok(3));
    assert_eq!(other.send(Add(1)).await, Ok(4));
    for _ in 0..5 {
        assert_eq!(address.send(Panic).await, Err(ActorError::Restarted));
    }
    assert_eq!(timeout(PATIENCE, address.send(Add(1))).await.unwrap(), Ok(1));
    assert_eq!(counts.made.load(Ordering::SeqCst), 7);
}

#[tokio::test]
async fn a_future_in_flight_is_lost_with_its_actor() {
    let (address, counts) = counter(Limits::default());
    let waiting = tokio::spawn({
        let address = address.clone();
        async move { address.send(Slow).await }
    });
    poll::holds("the future is in flight", || counts.slow.load(Ordering::SeqCst) == 1).await.unwrap();
    assert_eq!(address.send(Panic).await, Err(ActorError::Restarted));
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap(), Err(ActorError::Restarted));
}

#[tokio::test]
async fn a_mailbox_is_bounded() {
    let (address, counts) = counter(Limits { mailbox: 4, ..Limits::default() });
    address.send(Hold).await.unwrap();
    let mut taken = 0;
    while address.try_send(Add(1)).is_ok() {
        taken += 1;
        assert!(taken < 100, "the mailbox takes any number");
    }
    assert_eq!(address.try_send(Add(1)), Err(ActorError::Full));
    // `send` waits for room.
    let waiting = tokio::spawn({
        let address = address.clone();
        async move { address.send(Add(1)).await }
    });
    counts.gate.notify_one();
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap(), Ok(5));
    assert_eq!(taken, 4);
}

#[tokio::test]
async fn a_stopped_actor_says_so() {
    let (address, counts) = counter(Limits::default());
    address.send(Add(1)).await.unwrap();
    address.stop();
    timeout(PATIENCE, address.stopped()).await.unwrap();
    assert_eq!(address.send(Add(1)).await, Err(ActorError::Stopped));
    assert_eq!(address.try_send(Add(1)), Err(ActorError::Stopped));
    assert_eq!((counts.made.load(Ordering::SeqCst), counts.stopped.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn an_actor_that_nobody_can_reach_stops() {
    let (address, counts) = counter(Limits::default());
    address.send(Add(1)).await.unwrap();
    drop(address);
    poll::holds("it is stopped", || counts.stopped.load(Ordering::SeqCst) == 1).await.unwrap();
}
