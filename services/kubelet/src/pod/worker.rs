//! The actor of one Pod.
//!
//! It owns the Pod's [`Life`]. While a sync runs the Life is in the sync's hands, and what arrives meanwhile only marks
//! that another look is due. A worker that panicked is made again and starts from what the runtime has.

use super::sync::{Desired, Life, Next};
use crate::host::Host;
use crate::probe::{Outcome, Report, Results};
use actix::{Actor, ActorFutureExt as _, AsyncContext as _, Context, Handler, Message, SpawnHandle, WrapFuture as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use trireme_service::actor::{self, Address, Limits};

/// Called when nothing of the Pod is left on the node.
pub type Farewell = Arc<dyn Fn() + Send + Sync>;

/// Something has changed: look again.
#[derive(Debug, Clone, Copy)]
pub struct Wake;

impl Message for Wake {
    type Result = ();
}

impl Message for Outcome {
    type Result = ();
}

/// The actor.
pub struct Worker {
    host: Arc<Host>,
    desired: watch::Receiver<Desired>,
    life: Option<Box<Life>>,
    results: Results,
    due: bool,
    timer: Option<SpawnHandle>,
    farewell: Farewell,
}

/// Starts the worker of a Pod.
pub fn spawn(name: &str, host: Arc<Host>, desired: watch::Receiver<Desired>, farewell: Farewell) -> Address<Worker> {
    let make = move || Worker {
        host: host.clone(),
        desired: desired.clone(),
        life: None,
        results: Results::default(),
        due: false,
        timer: None,
        farewell: farewell.clone(),
    };
    actor::spawn(format!("pod {name}"), make, Limits::default())
}

impl Actor for Worker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.life = Some(Box::new(Life::new(self.host.clone(), self.desired.clone())));
        self.sync(ctx);
    }
}

impl Handler<Wake> for Worker {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.sync(ctx);
    }
}

impl Handler<Outcome> for Worker {
    type Result = ();

    fn handle(&mut self, outcome: Outcome, ctx: &mut Self::Context) {
        if self.results.set(outcome) {
            self.sync(ctx);
        }
    }
}

impl Worker {
    fn sync(&mut self, ctx: &mut Context<Self>) {
        let Some(mut life) = self.life.take() else {
            self.due = true;
            return;
        };
        self.due = false;
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        let results = self.results.clone();
        let address = ctx.address();
        let report: Report = Arc::new(move |outcome| {
            // A worker that is gone, or was made again, starts its probes anew.
            let _ = address.try_send(outcome);
        });
        let sync = async move {
            let next = life.sync(&results, &report).await;
            (life, next)
        };
        ctx.spawn(sync.into_actor(self).map(|(life, next), worker, ctx| worker.done(life, next, ctx)));
    }

    fn done(&mut self, life: Box<Life>, next: Next, ctx: &mut Context<Self>) {
        self.life = Some(life);
        if next.finished {
            (self.farewell)();
            return;
        }
        if self.due {
            self.sync(ctx);
        } else if let Some(after) = next.after {
            let after = after.max(Duration::from_millis(1));
            self.timer = Some(ctx.run_later(after, |worker, ctx| {
                worker.timer = None;
                worker.sync(ctx);
            }));
        }
    }
}
