//! Supervised actors.
//!
//! An actix actor whose handler panics is gone, and its address with it. Here an actor is made by a factory and reached
//! through an [`Address`] that stays: after a panic the actor is made again, at once the first time, later after ever
//! longer pauses. The message whose handler panicked, and those that waited in the mailbox, are lost, and their senders
//! are told so ([`ActorError::Restarted`]); all later ones reach the new actor.
//!
//! Mailboxes are bounded here too, by the number of messages that are not answered yet: actix's own bound grants every
//! clone of an address one more place, and a sender that finds it full is never woken.
//!
//! Actors run on a few threads of their own, each with a tokio runtime, so one can be started from anywhere. An actor
//! must not block its thread; it spawns what takes long.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, MailboxError, Message};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::run::panic_message;
use crate::tasks::Backoff;

/// How long an actor may take to die of a panic.
const DYING: Duration = Duration::from_secs(1);

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
    /// How many messages may be unanswered.
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
    room: Arc<Semaphore>,
    host: &'static Host,
}

enum State<A: Actor> {
    Restarting,
    /// The actor made as the nth.
    Up(u64, Addr<A>),
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
    let host = host();
    // The hosts live as long as the process, so the job is always taken.
    let _ = host.send(job);
    Address { state, stop, room: Arc::new(Semaphore::new(limits.mailbox.clamp(1, Semaphore::MAX_PERMITS))), host }
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
        let _place = self.room.acquire().await.map_err(|_| ActorError::Stopped)?;
        let (made, addr) = self.up().await?;
        match addr.send(message).await {
            Ok(answer) => Ok(answer),
            Err(MailboxError::Closed | MailboxError::Timeout) => Err(self.why_closed(made).await),
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
        let place = Arc::clone(&self.room).try_acquire_owned().map_err(|_| ActorError::Full)?;
        let addr = match &*self.state.borrow() {
            State::Up(_, addr) => addr.clone(),
            State::Restarting => return Err(ActorError::Restarting),
            State::Stopped => return Err(ActorError::Stopped),
        };
        // It is in the mailbox from here on; waiting for the answer is only for the place.
        let answer = addr.send(message);
        let job: Job = Box::new(move || {
            tokio::task::spawn_local(async move {
                let _ = answer.await;
                drop(place);
            });
        });
        let _ = self.host.send(job);
        Ok(())
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

    async fn up(&self) -> Result<(u64, Addr<A>), ActorError> {
        let mut state = self.state.clone();
        let state = state
            .wait_for(|state| match state {
                State::Up(_, addr) => addr.connected(),
                State::Restarting => false,
                State::Stopped => true,
            })
            .await
            .map_err(|_| ActorError::Stopped)?;
        match &*state {
            State::Up(made, addr) => Ok((*made, addr.clone())),
            _ => Err(ActorError::Stopped),
        }
    }

    /// A message was lost by the actor made as the nth. A panicking handler drops its message a moment before the actor is
    /// gone; a sender that knew then would send the next one to the dying actor. (One that lives has dropped an answer.)
    async fn why_closed(&self, made: u64) -> ActorError {
        let mut state = self.state.clone();
        let gone = state.wait_for(|state| !matches!(state, State::Up(n, _) if *n == made));
        match tokio::time::timeout(DYING, gone).await {
            Ok(Ok(state)) if matches!(*state, State::Stopped) => ActorError::Stopped,
            Ok(Err(_)) => ActorError::Stopped,
            _ => ActorError::Restarted,
        }
    }
}

/// Keeps one actor up. Lives on a host's thread.
async fn supervise<A, F>(
    name: String,
    factory: F,
    limits: Limits,
    state: watch::Sender<State<A>>,
    stop: CancellationToken,
) where
    A: Actor<Context = actix::Context<A>>,
    F: Fn() -> A,
{
    let mut backoff = Backoff::new(limits.longest_pause);
    let mut made = 0;
    loop {
        made += 1;
        let begun = Instant::now();
        let fall = match std::panic::catch_unwind(AssertUnwindSafe(&factory)) {
            Ok(actor) => {
                let mut context = actix::Context::new();
                // No bound: ours is before it.
                context.set_mailbox_capacity(0);
                let life = context.into_future(actor);
                state.send_replace(State::Up(made, life.address()));
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
type Host = mpsc::UnboundedSender<Job>;

/// The threads that actors run on, taken in turn.
fn host() -> &'static Host {
    static HOSTS: OnceLock<Vec<Host>> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let hosts = HOSTS.get_or_init(|| {
        let count = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
        (0..count).map(start_host).collect()
    });
    &hosts[NEXT.fetch_add(1, Ordering::Relaxed) % hosts.len()]
}

fn start_host(number: usize) -> Host {
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
        Self { state: self.state.clone(), stop: self.stop.clone(), room: Arc::clone(&self.room), host: self.host }
    }
}

impl<A: Actor> std::fmt::Debug for Address<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match *self.state.borrow() {
            State::Restarting => "restarting",
            State::Up(..) => "up",
            State::Stopped => "stopped",
        };
        write!(f, "Address({state})")
    }
}
