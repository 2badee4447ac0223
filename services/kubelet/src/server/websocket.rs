//! Kubernetes' subprotocols of WebSocket: each message begins with the number of its channel.

use actix_ws::AggregatedMessage;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};

/// How channels are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// A byte, then bytes.
    Binary,
    /// A digit, then base64.
    Base64,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    Data {
        channel: u8,
        data: Bytes,
    },
    /// Version 5: this channel will get no more.
    End {
        channel: u8,
    },
    /// The other side is done.
    Closed,
    Nothing,
}

/// The channel that closes others.
const CLOSE: u8 = 255;

impl Codec {
    /// Of a subprotocol's name.
    pub(super) fn of(protocol: &str) -> Self {
        if protocol.contains("base64") { Self::Base64 } else { Self::Binary }
    }

    pub(super) fn decode(self, message: AggregatedMessage) -> Input {
        match message {
            AggregatedMessage::Binary(mut bytes) => match bytes.first().copied() {
                None => Input::Nothing,
                Some(CLOSE) => bytes.get(1).map_or(Input::Nothing, |channel| Input::End { channel: *channel }),
                Some(channel) => Input::Data { channel, data: bytes.split_off(1) },
            },
            AggregatedMessage::Text(text) => {
                let Some(channel) = text.bytes().next().filter(u8::is_ascii_digit).map(|digit| digit - b'0') else {
                    return Input::Nothing;
                };
                let rest = &text[1..];
                let data = match self {
                    Self::Base64 => STANDARD.decode(rest).unwrap_or_default(),
                    Self::Binary => rest.as_bytes().to_vec(),
                };
                Input::Data { channel, data: data.into() }
            }
            AggregatedMessage::Close(_) => Input::Closed,
            AggregatedMessage::Ping(_) | AggregatedMessage::Pong(_) => Input::Nothing,
        }
    }

    /// Sends on a channel; false: nobody is there any more.
    pub(super) async fn send(self, session: &mut actix_ws::Session, channel: u8, data: &[u8]) -> bool {
        match self {
            Self::Binary => {
                let mut message = BytesMut::with_capacity(data.len() + 1);
                message.extend_from_slice(&[channel]);
                message.extend_from_slice(data);
                session.binary(message.freeze()).await.is_ok()
            }
            Self::Base64 => session.text(format!("{channel}{}", STANDARD.encode(data))).await.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels() {
        let binary = |bytes: &'static [u8]| Codec::Binary.decode(AggregatedMessage::Binary(Bytes::from_static(bytes)));
        assert_eq!(binary(b"\x00hi"), Input::Data { channel: 0, data: Bytes::from_static(b"hi") });
        assert_eq!(binary(b"\xff\x00"), Input::End { channel: 0 });
        assert_eq!(binary(b""), Input::Nothing);
        let text = Codec::Base64.decode(AggregatedMessage::Text("0aGk=".into()));
        assert_eq!(text, Input::Data { channel: 0, data: Bytes::from_static(b"hi") });
    }
}
