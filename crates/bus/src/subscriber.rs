//! The API server's side.

use std::future::pending;

use futures::StreamExt as _;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::Hint;
use crate::message::{Wire, read, read_local};

/// Hears what is published about a cluster.
#[derive(Debug)]
pub struct Subscriber {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Nats { messages: async_nats::Subscriber, interruptions: broadcast::Receiver<()> },
    Local { cluster_id: u64, messages: broadcast::Receiver<(u64, Wire)> },
}

impl Subscriber {
    pub(crate) fn nats(messages: async_nats::Subscriber, interruptions: broadcast::Receiver<()>) -> Self {
        Self { source: Source::Nats { messages, interruptions } }
    }

    pub(crate) fn local(cluster_id: u64, messages: broadcast::Receiver<(u64, Wire)>) -> Self {
        Self { source: Source::Local { cluster_id, messages } }
    }

    /// The next hint. Waits for ever while there is none; a closed bus is a silent one. Cancel-safe.
    pub async fn next(&mut self) -> Hint {
        loop {
            match &mut self.source {
                Source::Nats { messages, interruptions } => {
                    let message = tokio::select! {
                        // What arrived before an interruption is heard before it.
                        biased;
                        message = messages.next() => match message {
                            Some(message) => message,
                            None => return pending().await,
                        },
                        interruption = interruptions.recv() => match interruption {
                            Ok(()) | Err(RecvError::Lagged(_)) => return Hint::Interrupted,
                            Err(RecvError::Closed) => return pending().await,
                        },
                    };
                    if let Some(hint) = read(message.payload, message.headers.as_ref()) {
                        return hint;
                    }
                    metrics::counter!("trireme_bus_unreadable_total").increment(1);
                }
                Source::Local { cluster_id, messages } => match messages.recv().await {
                    Ok((of, wire)) if of == *cluster_id => {
                        if let Some(hint) = read_local(&wire) {
                            return hint;
                        }
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Hint::Interrupted,
                    Err(RecvError::Closed) => return pending().await,
                },
            }
        }
    }
}
