//! How messages travel: core NATS, or a channel inside the process.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::connection::State;
use futures::StreamExt as _;
use tokio::sync::broadcast;

use crate::message::{Wire, subject};
use crate::publisher::{HeadSource, Publisher};
use crate::{Error, Subscriber};

/// How many messages a slow reader inside the process may be behind.
const LOCAL_CAPACITY: usize = 4096;
/// How many messages a slow reader may be behind in its NATS client.
const NATS_CAPACITY: usize = 16 * 1024;

/// How long the server may take to confirm a subscription.
const ROUND_TRIP: Duration = Duration::from_secs(1);

/// How to reach a NATS server.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// Its address, or several by comma: `nats://127.0.0.1:4222`, `tls://user:password@nats:4222`.
    pub address: String,
    /// Name of this client, for the server's operator.
    pub name: String,
    /// CA of the server's certificate; with it the connection must be TLS.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// NATS credentials file.
    pub credentials_file: Option<PathBuf>,
}

impl NatsOptions {
    /// Just an address.
    #[must_use]
    pub fn new(address: impl Into<String>, name: impl Into<String>) -> Self {
        Self { address: address.into(), name: name.into(), ..Self::default() }
    }
}

/// A transport. Clones share it.
#[derive(Clone, Debug)]
pub struct Bus {
    pub(crate) transport: Transport,
}

#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Nats { client: async_nats::Client, interruptions: broadcast::Sender<()> },
    Local(broadcast::Sender<(u64, Wire)>),
}

impl Bus {
    /// A bus over NATS. The server need not be there: the client connects in the background, again and again.
    ///
    /// # Errors
    /// When the address or the credentials are malformed.
    pub async fn nats(options: &NatsOptions) -> Result<Self, Error> {
        let bad = |reason: String| Error::Nats { address: options.address.clone(), reason };
        let (interruptions, _) = broadcast::channel(8);
        let events = interruptions.clone();
        let mut connect = async_nats::ConnectOptions::new()
            .name(&options.name)
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(|attempts| match attempts {
                0 | 1 => Duration::ZERO,
                n => Duration::from_millis(50).saturating_mul(1 << n.min(5)),
            })
            .connection_timeout(Duration::from_secs(2))
            .ping_interval(Duration::from_secs(5))
            .subscription_capacity(NATS_CAPACITY)
            .event_callback(move |event| {
                let events = events.clone();
                async move { note(&event, &events) }
            });
        if let Some(ca) = &options.ca_file {
            connect = connect.add_root_certificates(ca.clone()).require_tls(true);
        }
        if let Some((cert, key)) = &options.identity {
            connect = connect.add_client_certificate(cert.clone(), key.clone());
        }
        if let Some(file) = &options.credentials_file {
            connect =
                connect.credentials_file(file).await.map_err(|error| bad(format!("{}: {error}", file.display())))?;
        }
        let addresses: Vec<&str> = options.address.split(',').map(str::trim).collect();
        let addresses = addresses
            .iter()
            .map(|address| address.parse::<async_nats::ServerAddr>())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad(error.to_string()))?;
        let client = connect.connect(addresses).await.map_err(|error| bad(error.to_string()))?;
        Ok(Self { transport: Transport::Nats { client, interruptions } })
    }

    /// A bus inside this process.
    #[must_use]
    pub fn in_process() -> Self {
        Self { transport: Transport::Local(broadcast::channel(LOCAL_CAPACITY).0) }
    }

    /// Whether messages can be sent now.
    #[must_use]
    pub fn connected(&self) -> bool {
        match &self.transport {
            Transport::Nats { client, .. } => client.connection_state() == State::Connected,
            Transport::Local(_) => true,
        }
    }

    /// Listens to a cluster from now on: list the store after this returned, and nothing is missed unnoticed.
    ///
    /// # Errors
    /// When the bus is closed.
    pub async fn subscribe(&self, cluster_id: u64) -> Result<Subscriber, Error> {
        match &self.transport {
            Transport::Nats { client, interruptions } => {
                let interruptions = interruptions.subscribe();
                let messages = client.subscribe(subject(cluster_id)).await.map_err(|_| Error::Closed)?;
                // Without a connection there is nothing to wait for: the client subscribes when it has one.
                if self.connected() && tokio::time::timeout(ROUND_TRIP, round_trip(client)).await.is_err() {
                    tracing::debug!("the bus did not confirm the subscription in time");
                }
                Ok(Subscriber::nats(messages, interruptions))
            }
            Transport::Local(sender) => Ok(Subscriber::local(cluster_id, sender.subscribe())),
        }
    }

    /// Starts a publisher. `heads` is asked every [`crate::HEAD_EVERY`] and answers while this member leads and a quorum
    /// confirmed it within the election timeout.
    #[must_use]
    pub fn publisher(&self, heads: impl HeadSource) -> Publisher {
        Publisher::start(self.clone(), heads)
    }

    /// Sends now or drops.
    pub(crate) async fn send(&self, cluster_id: u64, wire: Wire) -> Result<(), Dropped> {
        match &self.transport {
            Transport::Nats { client, .. } => {
                // The client would keep messages for a later connection, when they are of no use.
                if client.connection_state() != State::Connected {
                    return Err(Dropped);
                }
                let headers = wire.headers();
                client.publish_with_headers(subject(cluster_id), headers, wire.payload).await.map_err(|_| Dropped)
            }
            Transport::Local(sender) => {
                // Nobody listening is no failure.
                let _ = sender.send((cluster_id, wire));
                Ok(())
            }
        }
    }
}

/// Waits until the server has handled all that this client told it before.
async fn round_trip(client: &async_nats::Client) -> Option<()> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.ok()?;
    client.publish(inbox, bytes::Bytes::new()).await.ok()?;
    answers.next().await.map(drop)
}

/// The message was not sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped;

fn note(event: &async_nats::Event, interruptions: &broadcast::Sender<()>) {
    match event {
        async_nats::Event::Connected => tracing::info!("connected to the bus"),
        async_nats::Event::Disconnected => {
            tracing::warn!("disconnected from the bus");
            let _ = interruptions.send(());
        }
        async_nats::Event::SlowConsumer(_) => {
            metrics::counter!("trireme_bus_slow_consumer_total").increment(1);
            let _ = interruptions.send(());
        }
        // Told at every attempt while the server is away.
        other => tracing::debug!("bus: {other}"),
    }
}
