//! Network namespaces of this machine, in which tests build nodes, Pods and their neighbours. They need root.

use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;

use anyhow::bail;
use nix::sched::{CloneFlags, setns};

use crate::poll::PATIENCE;

/// A network namespace; removed when dropped.
#[derive(Debug)]
pub struct Namespace(String);

impl Namespace {
    /// Makes one; `what` ends its name.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn new(what: &str) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tt{}n{}{what}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name])?;
        let namespace = Self(name);
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    /// What `ip ARGUMENTS` prints in it.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn ip(&self, arguments: &[&str]) -> anyhow::Result<String> {
        ip(&[&["-n", &self.0], arguments].concat())
    }

    /// Runs something on a thread inside, beside the caller.
    ///
    /// # Panics
    /// The namespace cannot be entered.
    pub fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let path = self.path();
        std::thread::spawn(move || {
            let entered = File::open(&path).map_err(anyhow::Error::from);
            let entered = entered.and_then(|file| Ok(setns(file, CloneFlags::CLONE_NEWNET)?));
            assert!(entered.is_ok(), "{path}: {entered:?}");
            work()
        })
    }

    /// Runs something on a thread inside.
    ///
    /// # Panics
    /// It did.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs something async inside.
    ///
    /// # Panics
    /// It did, or there is no runtime.
    pub fn block_on<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        self.run(move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(work()),
            Err(error) => panic!("no runtime: {error}"),
        })
    }

    /// Answers every TCP connection to `port` with what `answer` makes of the client's address.
    ///
    /// # Errors
    /// The port is taken.
    pub fn serve(&self, port: u16, answer: impl Fn(SocketAddr) -> String + Send + 'static) -> std::io::Result<()> {
        let listener = self.run(move || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
        std::thread::spawn(move || {
            while let Ok((mut stream, peer)) = listener.accept() {
                // A client that went away asks nothing any more.
                let _ = stream.write_all(answer(peer).as_bytes());
            }
        });
        Ok(())
    }

    /// Connects from inside and reads the whole answer.
    ///
    /// # Errors
    /// No connection or no answer.
    pub fn ask(&self, address: Ipv4Addr, port: u16) -> std::io::Result<String> {
        self.run(move || ask(address, port))
    }

    /// Whether what is sent to an address vanishes: nothing has come back when `witness`, whom this one asks later, has
    /// answered.
    ///
    /// # Errors
    /// The witness cannot be asked.
    pub fn is_ignored_by(&self, address: Ipv4Addr, port: u16, (witness, at): (Ipv4Addr, u16)) -> std::io::Result<bool> {
        self.block_on(move || async move {
            let mut asked = pin!(tokio::net::TcpStream::connect((address, port)));
            let mut silent = false;
            // The first look sends; each answer of the witness lets the kernel tell what came meanwhile.
            for _ in 0..4 {
                silent = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await;
                if !silent {
                    break;
                }
                let answer = async {
                    let mut witness = tokio::net::TcpStream::connect((witness, at)).await?;
                    tokio::io::copy(&mut witness, &mut tokio::io::sink()).await
                };
                tokio::time::timeout(PATIENCE, answer).await??;
            }
            Ok(silent)
        })
    }

    /// Whether somebody inside, as `nft monitor` does, hears of changes to the packet filter's rules.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn hears_of_rules(&self) -> std::io::Result<bool> {
        // NETLINK_NETFILTER, and the bit of NFNLGRP_NFTABLES.
        const FAMILY: &str = "12";
        const GROUP: u32 = 1 << 6;
        let sockets = self.run(|| fs::read_to_string("/proc/thread-self/net/netlink"))?;
        Ok(sockets.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (family, groups) = (words.next(), words.nth(1));
            family == Some(FAMILY) && groups.is_some_and(|g| u32::from_str_radix(g, 16).is_ok_and(|g| g & GROUP != 0))
        }))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that was never made, or that somebody removed, is gone as it should be.
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

/// In the caller's namespace: connects and reads the whole answer.
///
/// # Errors
/// No connection or no answer.
pub fn ask(address: Ipv4Addr, port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("ip").args(arguments).output()?;
    if !output.status.success() {
        bail!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
