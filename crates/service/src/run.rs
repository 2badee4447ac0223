//! The process around a service: runtime, telemetry, signals, orderly end.

use std::cell::Cell;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{CommonArgs, Context, Error};

/// Runs a service as this process: see [`Harness`].
pub fn run_main<F, Fut>(name: &'static str, args: CommonArgs, service: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    Harness::new(name, args).run(service)
}

/// The process around a service.
#[derive(Debug)]
pub struct Harness {
    name: &'static str,
    instance: Option<String>,
    args: CommonArgs,
}

impl Harness {
    /// For the service of this name.
    #[must_use]
    pub fn new(name: &'static str, args: CommonArgs) -> Self {
        Self { name, instance: None, args }
    }

    /// Names this instance in traces (a node's name, say); by default the host's name and the process id do.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Runs `service` on this thread until it returns, with a runtime of `--worker-threads` beside it.
    ///
    /// SIGTERM and SIGINT cancel [`Context::shutdown`]; the service then has `--shutdown-timeout` to return and its tasks
    /// the rest of it to end. A second signal ends the process at once. The exit code is 1 when the service failed, or a
    /// task that it can't live without did.
    pub fn run<F, Fut>(self, service: F) -> ExitCode
    where
        F: FnOnce(Context) -> Fut,
        Fut: Future<Output = anyhow::Result<()>>,
    {
        // A second installation finds the first one's provider, which is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.args.worker_threads.max(1))
            .max_blocking_threads(64)
            .thread_name(self.name)
            .enable_all()
            .build();
        let runtime: &'static tokio::runtime::Runtime = match runtime {
            // Left to the process's end: dropping it would wait for blocking calls that nobody needs any more.
            Ok(runtime) => Box::leak(Box::new(runtime)),
            Err(error) => return complain(self.name, &Error::Runtime(error).into()),
        };
        let system = actix_rt::System::with_tokio_rt(|| runtime);
        system.block_on(self.main(service))
    }

    async fn main<F, Fut>(self, service: F) -> ExitCode
    where
        F: FnOnce(Context) -> Fut,
        Fut: Future<Output = anyhow::Result<()>>,
    {
        let instance = match self.instance.map_or_else(default_instance, Ok) {
            Ok(instance) => instance,
            Err(error) => return complain(self.name, &error.into()),
        };
        let telemetry = match trireme_telemetry::init(self.args.telemetry(self.name, &instance)) {
            Ok(telemetry) => telemetry,
            Err(error) => return complain(self.name, &error.into()),
        };
        log_panics();
        let context = Context::new(self.name, self.args);
        let now = match watch_signals(&context) {
            Ok(now) => now,
            Err(error) => return complain(self.name, &error.into()),
        };
        tracing::info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "{} starts", self.name);

        let outcome = supervise(&context, &now, service(context.clone())).await;
        telemetry.shutdown().await;
        outcome
    }
}

/// Runs the service to its end and its tasks after it.
async fn supervise(
    context: &Context,
    now: &CancellationToken,
    service: impl Future<Output = anyhow::Result<()>>,
) -> ExitCode {
    let limit = context.args.shutdown_timeout;
    let asked = Cell::new(None);
    let deadline = async {
        context.shutdown.cancelled().await;
        asked.set(Some(Instant::now()));
        tokio::select! {
            () = tokio::time::sleep(limit) => {}
            () = now.cancelled() => {}
        }
    };
    let mut code = ExitCode::SUCCESS;
    tokio::select! {
        result = service => if let Err(error) = result {
            tracing::error!("{} failed: {error:#}", context.name);
            code = ExitCode::FAILURE;
        },
        () = deadline => tracing::warn!("{} did not end within {limit:?}", context.name),
    }
    context.shutdown.cancel();
    if !now.is_cancelled() {
        let spent = asked.get().map_or(Duration::ZERO, |asked| asked.elapsed());
        let left = limit.saturating_sub(spent).max(Duration::from_secs(1));
        for name in context.tasks.finish(left).await {
            tracing::warn!(task = name, "task did not end in time");
        }
    }
    if let Some(failure) = context.tasks.failure() {
        tracing::error!("{} failed: {failure}", context.name);
        code = ExitCode::FAILURE;
    }
    tracing::info!("{} ends", context.name);
    code
}

/// The first signal asks for an orderly end; the token returned is cancelled by the second.
fn watch_signals(context: &Context) -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = context.shutdown.clone();
    let now = CancellationToken::new();
    let at_once = now.clone();
    tokio::spawn(async move {
        for token in [shutdown, at_once] {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM"),
                _ = interrupt.recv() => tracing::info!("SIGINT"),
            }
            token.cancel();
        }
    });
    Ok(now)
}

/// Panics are caught where actors and tasks are supervised; this only makes their message a log line.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current().name().unwrap_or("?").to_owned();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = panic_message(info.payload());
        tracing::error!(thread, place, "panic: {message}");
    }));
}

/// The text that a panic was raised with.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "(no message)".to_owned()
    }
}

/// Says on standard error, in one line, why the process can't start: for `main`, before there are logs.
#[allow(clippy::print_stderr, reason = "telemetry is not set up yet, so this is the only way to be heard")]
pub fn complain(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("{name}: {error:#}");
    ExitCode::FAILURE
}

fn default_instance() -> Result<String, Error> {
    Ok(format!("{}-{}", crate::hostname()?, std::process::id()))
}
