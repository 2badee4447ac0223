//! The revision that a linearizable read has to see.
//!
//! One actor asks the store, one question at a time. A reader joins the next question, never one that was sent before it
//! came: that answer might be older than what the reader has to see.

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tonic::Code;
use trireme_proto::etcdserverpb::RangeRequest;
use trireme_proto::store::v1::ReadIndexRequest;

use super::client::{self, Client};
use crate::error::Error;

/// How many readers may wait.
const WAITING: usize = 10_000;

type Reply = oneshot::Sender<Result<i64, String>>;

/// The address of the actor.
#[derive(Clone)]
pub struct ReadIndex {
    questions: mpsc::Sender<(Instant, Reply)>,
    newest: watch::Receiver<i64>,
}

// === impl ReadIndex ===

impl ReadIndex {
    /// The address, and the actor's loop to be run.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (questions, inbox) = mpsc::channel(WAITING);
        let (told, newest) = watch::channel(0);
        (Self { questions, newest }, run(client, inbox, told))
    }

    /// The newest revision that was answered.
    pub fn newest(&self) -> watch::Receiver<i64> {
        self.newest.clone()
    }

    /// The store's revision at a moment after this call.
    pub async fn get(&self, deadline: Instant) -> Result<i64, Error> {
        let (reply, answer) = oneshot::channel();
        self.questions.send((deadline, reply)).await.map_err(|_| Error::Stopped("the read index"))?;
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(Ok(revision))) => Ok(revision),
            Ok(Ok(Err(why))) => Err(Error::StoreTimeout(why)),
            Ok(Err(_)) => Err(Error::Stopped("the read index")),
            Err(_) => Err(Error::StoreTimeout("no read index".to_owned())),
        }
    }
}

async fn run(client: Client, mut inbox: mpsc::Receiver<(Instant, Reply)>, told: watch::Sender<i64>) {
    let mut waiting = Vec::new();
    // A stock etcd has no such service; its linearizable Range tells the same.
    let mut ours = true;
    while inbox.recv_many(&mut waiting, WAITING).await > 0 {
        // The most patient reader sets the time; each gives up at its own.
        let Some(deadline) = waiting.iter().map(|(deadline, _)| *deadline).max() else { continue };
        let answer = ask(&client, &mut ours, deadline).await.map_err(|error| error.to_string());
        if let Ok(revision) = &answer {
            told.send_if_modified(|newest| {
                let newer = *revision > *newest;
                *newest = (*newest).max(*revision);
                newer
            });
        }
        for (_, reply) in waiting.drain(..) {
            let _ = reply.send(answer.clone());
        }
    }
}

async fn ask(client: &Client, ours: &mut bool, deadline: Instant) -> Result<i64, Error> {
    if *ours {
        let foreign = std::sync::atomic::AtomicBool::new(false);
        let asked = client
            .call(deadline, |mut member| {
                let foreign = &foreign;
                async move {
                    let answer = member.store.read_index(ReadIndexRequest {}).await;
                    if answer.as_ref().is_err_and(|status| status.code() == Code::Unimplemented) {
                        foreign.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                    answer
                }
            })
            .await;
        match asked {
            Err(_) if foreign.into_inner() => *ours = false,
            other => return other.map(|answered| answered.answer.revision),
        }
    }
    let key = Bytes::from_static(super::compactor::KEY.as_bytes());
    let request = RangeRequest { key, count_only: true, ..RangeRequest::default() };
    client.range(request, deadline).await.map(|answer| client::revision(&answer))
}
