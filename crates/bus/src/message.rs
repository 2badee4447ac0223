//! What travels on the bus, and how it is written.

use async_nats::HeaderMap;
use bytes::Bytes;
use prost::Message as _;
use trireme_proto::store::v1::BusMessage;
use trireme_telemetry::{Hop, TraceParent};

/// The largest message that carries its events, in bytes.
pub const LARGEST: usize = 512 * 1024;

/// The subject of a cluster.
#[must_use]
pub fn subject(cluster_id: u64) -> String {
    format!("watch.{cluster_id:016x}")
}

/// How far the leader is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The cluster.
    pub cluster_id: u64,
    /// New after a restore.
    pub incarnation: String,
    /// The leader's term.
    pub term: u64,
    /// The newest revision it has applied.
    pub revision: i64,
}

/// What a subscriber hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Hint {
    /// A revision was applied.
    Revision {
        /// It.
        message: BusMessage,
        /// The span that published it.
        span: Option<TraceParent>,
    },
    /// The leader's head.
    Head(Head),
    /// Messages may have been lost: the connection broke, or this subscriber was too slow. Only a head start on what
    /// [`crate::Sequence`] finds out by itself.
    Interrupted,
}

impl From<Head> for BusMessage {
    fn from(head: Head) -> Self {
        Self {
            cluster_id: head.cluster_id,
            incarnation: head.incarnation,
            term: head.term,
            revision: head.revision,
            previous_revision: head.revision,
            ..Self::default()
        }
    }
}

/// A message as it travels: payload and headers.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) payload: Bytes,
    pub(crate) kind: Kind,
    pub(crate) span: Option<TraceParent>,
    /// The same as in the payload, for people who look at the subject.
    described: Described,
}

#[derive(Clone, Debug)]
struct Described {
    cluster_id: u64,
    incarnation: String,
    term: u64,
    revision: i64,
    previous_revision: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Revision,
    Head,
}

const KIND: &str = "kind";
const HEAD: &str = "head";
const REVISION: &str = "revision";

impl Wire {
    pub(crate) fn new(mut message: BusMessage, kind: Kind, span: Option<TraceParent>) -> Self {
        if message.encoded_len() > LARGEST {
            message.events.clear();
            message.headers_only = true;
        }
        let described = Described {
            cluster_id: message.cluster_id,
            incarnation: message.incarnation.clone(),
            term: message.term,
            revision: message.revision,
            previous_revision: message.previous_revision,
        };
        Self { payload: message.encode_to_vec().into(), kind, span, described }
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(KIND, if self.kind == Kind::Head { HEAD } else { REVISION });
        headers.insert("cluster-id", format!("{:016x}", self.described.cluster_id));
        headers.insert("incarnation", self.described.incarnation.as_str());
        headers.insert("term", self.described.term.to_string());
        headers.insert("revision", self.described.revision.to_string());
        headers.insert("previous-revision", self.described.previous_revision.to_string());
        if let Some(span) = self.span {
            headers.insert("traceparent", span.to_string());
        }
        headers
    }
}

/// Reads a message off the wire; none if it is not one of ours.
pub(crate) fn read(payload: Bytes, headers: Option<&HeaderMap>) -> Option<Hint> {
    let header = |name: &str| headers.and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str);
    let kind = header(KIND)?;
    let message = BusMessage::decode(payload).ok()?;
    match kind {
        HEAD => Some(head(message)),
        REVISION => {
            let span = header("traceparent").and_then(TraceParent::parse);
            Some(Hint::Revision { message, span: Hop::Bus.carry(span) })
        }
        _ => None,
    }
}

/// The same for a message that never left the process.
pub(crate) fn read_local(wire: &Wire) -> Option<Hint> {
    let message = BusMessage::decode(wire.payload.clone()).ok()?;
    Some(match wire.kind {
        Kind::Head => head(message),
        Kind::Revision => Hint::Revision { message, span: Hop::Bus.carry(wire.span) },
    })
}

fn head(message: BusMessage) -> Hint {
    Hint::Head(Head {
        cluster_id: message.cluster_id,
        incarnation: message.incarnation,
        term: message.term,
        revision: message.revision,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme_proto::mvccpb::{Event, KeyValue};

    fn message(bytes: usize) -> BusMessage {
        let kv =
            KeyValue { key: Bytes::from_static(b"/registry/x"), value: vec![7; bytes].into(), ..KeyValue::default() };
        BusMessage {
            cluster_id: 1,
            incarnation: "a".to_owned(),
            term: 2,
            revision: 9,
            previous_revision: 8,
            events: vec![Event { kv: Some(kv), ..Event::default() }],
            headers_only: false,
        }
    }

    #[test]
    fn there_and_back() {
        let span = TraceParent::new([1; 16], [2; 8], true);
        let wire = Wire::new(message(10), Kind::Revision, span);
        let expected = Hint::Revision { message: message(10), span };
        assert_eq!(read(wire.payload.clone(), Some(&wire.headers())), Some(expected.clone()));
        assert_eq!(read_local(&wire), Some(expected));
    }

    #[test]
    fn a_large_one_travels_without_its_events() {
        let wire = Wire::new(message(LARGEST), Kind::Revision, None);
        assert!(wire.payload.len() < 100);
        let Some(Hint::Revision { message, .. }) = read_local(&wire) else { panic!("no revision") };
        assert!(message.headers_only && message.events.is_empty());
        assert_eq!((message.previous_revision, message.revision), (8, 9));
    }

    #[test]
    fn strangers_are_ignored() {
        let wire = Wire::new(message(1), Kind::Revision, None);
        assert_eq!(read(wire.payload.clone(), None), None);
        assert_eq!(read(Bytes::from_static(b"\xff\xff"), Some(&wire.headers())), None);
    }
}
