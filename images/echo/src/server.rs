//! The server: one thread a request, one line of log each but for probes.

use std::{
    fmt::Write as _,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tiny_http::{Header, Request, Response, Server};

/// How long requests under way may take to end after SIGTERM.
const GRACE: Duration = Duration::from_millis(200);

/// Serves until SIGTERM (exit code 0) or until told to exit (that code).
pub(crate) fn serve() -> io::Result<u8> {
    if let Some(code) = number("ECHO_EXIT") {
        println!("exiting with {code} as ECHO_EXIT says");
        return Ok(code);
    }
    let port = std::env::var("ECHO_PORT").ok().and_then(|p| p.parse::<u16>().ok()).unwrap_or(8080);
    let server = Arc::new(Server::http(("0.0.0.0", port)).map_err(io::Error::other)?);
    let unready = Arc::new(AtomicBool::new(std::env::var("ECHO_UNREADY").is_ok_and(|v| v == "1")));
    let (exit, exits) = mpsc::channel();
    stop_on_signal(exit.clone())?;
    println!("{} serves on port {port}", name());
    thread::spawn(move || {
        for request in server.incoming_requests() {
            let (unready, exit) = (unready.clone(), exit.clone());
            thread::spawn(move || answer(request, &unready, &exit));
        }
    });
    exits.recv().map_err(io::Error::other)
}

fn stop_on_signal(exit: mpsc::Sender<u8>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            println!("told to stop");
            thread::sleep(GRACE);
            // The receiver is gone only when the process ends anyhow.
            let _gone = exit.send(0);
        }
    });
    Ok(())
}

fn answer(request: Request, unready: &AtomicBool, exit: &mpsc::Sender<u8>) {
    let url = request.url().to_owned();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    let asked = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).and_then(|v| v.parse::<u16>().ok())
    };
    let (mut code, mut end) = (200, None);
    match path {
        "/readyz" if unready.load(Ordering::Relaxed) => code = 503,
        "/fail" => code = asked("code").unwrap_or(500),
        "/exit" => end = Some(asked("code").and_then(|c| u8::try_from(c).ok()).unwrap_or(1)),
        "/stall" => thread::sleep(Duration::from_secs(asked("seconds").unwrap_or(30).into())),
        "/unready" => unready.store(true, Ordering::Relaxed),
        "/ready" => unready.store(false, Ordering::Relaxed),
        _ => {}
    }
    if !is_probe(path, agent(&request)) {
        println!("{} {url} {code}", request.method());
    }
    let mut response = Response::from_string(text(&request, &url)).with_status_code(code);
    if let Ok(header) = Header::from_bytes("X-Pod", name()) {
        response.add_header(header);
    }
    // A client that went away is nobody's fault.
    let _gone = request.respond(response);
    if let Some(code) = end {
        let _gone = exit.send(code);
    }
}

/// Whether a kubelet asks how the server is: every second or so, which nobody wants to read.
fn is_probe(path: &str, agent: &str) -> bool {
    path == "/readyz" || agent.starts_with("kube-probe/")
}

fn agent(request: &Request) -> &str {
    request.headers().iter().find(|h| h.field.equiv("User-Agent")).map_or("", |h| h.value.as_str())
}

fn text(request: &Request, url: &str) -> String {
    let mut text = format!("pod: {}\nnode: {}\n{} {url}\n", name(), variable("NODE_NAME"), request.method());
    if let Some(from) = request.remote_addr() {
        let _infallible = writeln!(text, "from: {from}");
    }
    for header in request.headers() {
        let _infallible = writeln!(text, "{}: {}", header.field, header.value);
    }
    text
}

/// The Pod's name: `POD_NAME` (downward API), else the host name, which a Pod has from its own.
fn name() -> String {
    let named = variable("POD_NAME");
    if named.is_empty() { variable("HOSTNAME") } else { named }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn number(name: &str) -> Option<u8> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_told_from_requests() {
        assert!(is_probe("/readyz", "") && is_probe("/readyz", "curl/8.0") && is_probe("/fail", "kube-probe/1.37"));
        assert!(!is_probe("/", "") && !is_probe("/ready", "curl/8.0") && !is_probe("/readyz/x", "not kube-probe/"));
    }
}
