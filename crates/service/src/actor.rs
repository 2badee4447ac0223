//! Supervised actors.
//!
//! An actix actor whose handler panics is gone, and its address with it. Here an actor is made by a factory and reached
//! through an [`Address`] that stays: after a panic the actor is made again, at once the first time, later after ever
//! longer pauses. The message whose handler panicked, and those that waited in the mailbox, are lost, and their senders
//! are told so ([`ActorError::Restarted`]); all later ones reach the new actor. Mailboxes are bounded.
//!
//! Actors run on a few threads of their own, each with a tokio runtime, so one can be started from anywhere. An actor
//! must not block its thread; it spawns what takes long.

use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, MailboxError, Message};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::run::panic_message;
use crate::tasks::Backoff;

/// Why a message was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActorError {
    /// The mailbox is full.
    #[error("mailbox is full")]
    Full,
    /// The actor went down before it answered; it may have acted on the message.
    #[error("actor was restarted while it had the message")]
    Restarted,
    /// The actor is not up, and is being made again.
    #[error("actor is being restarted")]
    Restarting,
    /// The actor was stopped, or stopped itself.
    #[error("actor is stopped")]
    Stopped,
}

/// Bounds of an actor.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many messages wait at most.
    pub mailbox: usize,
    /// The longest pause before a restart.
    pub longest_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { mailbox: 64, longest_pause: Duration::from_secs(5) }
    }
}

/// The stable address of a supervised actor. The actor stops when the last clone is dropped.
pub struct Address<A: Actor> {
    state: watch::Receiver<State<A>>,
    stop: CancellationToken,
}

enum State<A: Actor> {
    Restarting,
    Up(Addr<A>),
    Stopped,
}

/// Starts an actor that `factory` makes, now and after every panic.
pub fn spawn<A, F>(name: impl Into<String>, factory: F, limits: Limits) -> Address<A>
where
    A: Actor<Context = actix::Context<A>>,
    F: Fn() -> A + Send + 'static,
{
    let name = name.into();
    let (sender, state) = watch::channel(State::Restarting);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let job: Job = Box::new(move || {
        tokio::task::spawn_local(supervise(name, factory, limits, sender, stopped));
    });
    // The hosts live as long as the process, so the job is always taken.
    let _ = host().send(job);
    Address { state, stop }
}

impl<A> Address<A>
where
    A: Actor<Context = actix::Context<A>>,
{
    /// Sends a message and waits for its answer. Waits while the mailbox is full or the actor is being made again.
    ///
    /// # Errors
    /// [`ActorError::Restarted`] when the actor panicked with the message, [`ActorError::Stopped`] when there is none.
    pub async fn send<M>(&self, message: M) -> Result<M::Result, ActorError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        <A as Handler<M>>::Result: MessageResponse<A, M>,
    {
        let addr = self.up().await?;
        match addr.send(message).await {
            Ok(answer) => Ok(answer),
            Err(MailboxError::Closed) => Err(self.why_closed()),
            Err(MailboxError::Timeout) => Err(ActorError::Full),
        }
    }

    /// Leaves a message whose answer is not waited for.
    ///
    /// # Errors
    /// [`ActorError::Full`], [`ActorError::Restarting`] or [`ActorError::Stopped`] when it can't be left now.
    pub fn try_send<M>(&self, message: M) -> Result<(), ActorError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        let addr = match &*self.state.borrow() {
            State::Up(addr) => addr.clone(),
            State::Restarting => return Err(ActorError::Restarting),
            State::Stopped => return Err(ActorError::Stopped),
        };
        addr.try_send(message).map_err(|error| match error {
            actix::dev::SendError::Full(_) => ActorError::Full,
            actix::dev::SendError::Closed(_) => ActorError::Restarting,
        })
    }

    /// Stops the actor; its `stopping` and `stopped` run.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the actor is stopped.
    pub async fn stopped(&self) {
        let mut state = self.state.clone();
        // An error means that the supervisor is gone, and the actor with it.
        let _ = state.wait_for(|state| matches!(state, State::Stopped)).await;
    }

    async fn up(&self) -> Result<Addr<A>, ActorError> {
        let mut state = self.state.clone();
        let state = state
            .wait_for(|state| match state {
                State::Up(addr) => addr.connected(),
                State::Restarting => false,
                State::Stopped => true,
            })
            .await
            .map_err(|_| ActorError::Stopped)?;
        match &*state {
            State::Up(addr) => Ok(addr.clone()),
            _ => Err(ActorError::Stopped),
        }
    }

    fn why_closed(&self) -> ActorError {
        match *self.state.borrow() {
            State::Stopped => ActorError::Stopped,
            _ => ActorError::Restarted,
        }
    }
}

/// Keeps one actor up. Lives on a host's thread.
async fn supervise<A, F>(name: String, factory: F, limits: Limits, state: watch::Sender<State<A>>, stop: CancellationToken)
where
    A: Actor<Context = actix::Context<A>>,
    F: Fn() -> A,
{
    let mut backoff = Backoff::new(limits.longest_pause);
    loop {
        let begun = Instant::now();
        let fall = match std::panic::catch_unwind(AssertUnwindSafe(&factory)) {
            Ok(actor) => {
                let mut context = actix::Context::new();
                context.set_mailbox_capacity(limits.mailbox);
                let life = context.into_future(actor);
                state.send_replace(State::Up(life.address()));
                // In a task of its own: tokio catches its panics.
                let mut life = tokio::task::spawn_local(life);
                let end = tokio::select! {
                    end = &mut life => Some(end),
                    () = stop.cancelled() => None,
                    () = state.closed() => None,
                };
                match end {
                    Some(Err(end)) if end.is_panic() => panic_message(&*end.into_panic()),
                    Some(_) => break,
                    None => {
                        life.abort();
                        let _ = life.await;
                        break;
                    }
                }
            }
            Err(panic) => panic_message(&*panic),
        };
        state.send_replace(State::Restarting);
        metrics::counter!("trireme_actor_restarts_total", "actor" => name.clone()).increment(1);
        tracing::error!(actor = name, "actor panicked and is made again: {fall}");
        tokio::select! {
            () = tokio::time::sleep(backoff.after(begun.elapsed())) => {}
            () = stop.cancelled() => break,
            () = state.closed() => break,
        }
    }
    state.send_replace(State::Stopped);
}

// === hosts ===

type Job = Box<dyn FnOnce() + Send>;

/// The threads that actors run on, taken in turn.
fn host() -> &'static mpsc::UnboundedSender<Job> {
    static HOSTS: OnceLock<Vec<mpsc::UnboundedSender<Job>>> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let hosts = HOSTS.get_or_init(|| {
        let count = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
        (0..count).map(start_host).collect()
    });
    &hosts[NEXT.fetch_add(1, Ordering::Relaxed) % hosts.len()]
}

fn start_host(number: usize) -> mpsc::UnboundedSender<Job> {
    let (sender, mut jobs) = mpsc::unbounded_channel::<Job>();
    let started = std::thread::Builder::new().name(format!("actors-{number}")).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "no runtime for actors");
                return;
            }
        };
        LocalSet::new().block_on(&runtime, async move {
            while let Some(job) = jobs.recv().await {
                job();
            }
        });
    });
    if let Err(error) = started {
        tracing::error!(%error, "no thread for actors");
    }
    sender
}

// === impl Address ===

impl<A: Actor> Clone for Address<A> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), stop: self.stop.clone() }
    }
}

impl<A: Actor> std::fmt::Debug for Address<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match *self.state.borrow() {
            State::Restarting => "restarting",
            State::Up(_) => "up",
            State::Stopped => "stopped",
        };
        write!(f, "Address({state})")
    }
}
