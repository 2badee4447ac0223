//! port-forward: connections into a Pod, through the runtime. Both ways at once, neither waits for the other.

use super::spdy::{self, Frame, Frames, Streams};
use super::websocket::{Codec, Input};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, Session};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use std::collections::HashMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const BUFFER: usize = 32 << 10;
/// Two channels a port, and a channel is a byte.
const PORTS: usize = 100;

/// SPDY inside of WebSocket: the bytes are the runtime's business.
pub(super) async fn tunnel(session: Session, messages: AggregatedMessageStream, upgraded: spdy::Upgraded) {
    let (read, mut write) = tokio::io::split(upgraded.stream);
    tokio::select! {
        () = tunnel_up(messages, session.clone(), &mut write) => {}
        () = tunnel_down(read, upgraded.early, session.clone()) => {}
    }
    // Whoever was gone first, the other end is told; it may be gone too.
    let _ = write.shutdown().await;
    let _ = session.close(Some(CloseReason { code: CloseCode::Normal, description: None })).await;
}

async fn tunnel_up(mut messages: AggregatedMessageStream, mut session: Session, write: &mut WriteHalf<TcpStream>) {
    loop {
        let done = match messages.next().await {
            Some(Ok(AggregatedMessage::Binary(data))) => write.write_all(&data).await.is_err(),
            Some(Ok(AggregatedMessage::Ping(data))) => session.pong(&data).await.is_err(),
            Some(Ok(AggregatedMessage::Close(_)) | Err(_)) | None => true,
            Some(Ok(_)) => false,
        };
        if done {
            return;
        }
    }
}

async fn tunnel_down(mut read: ReadHalf<TcpStream>, early: Bytes, mut session: Session) {
    if !early.is_empty() && session.binary(early).await.is_err() {
        return;
    }
    let mut buffer = BytesMut::with_capacity(BUFFER);
    while let Ok(1..) = read.read_buf(&mut buffer).await {
        if session.binary(buffer.split().freeze()).await.is_err() {
            return;
        }
        buffer.reserve(BUFFER);
    }
}

/// Two channels a port, data and error; each begins with the port's number.
pub(super) async fn channels(
    mut session: Session,
    messages: AggregatedMessageStream,
    codec: Codec,
    upgraded: spdy::Upgraded,
    ports: Vec<u16>,
) {
    let (frames, mut streams) = upgraded.split();
    let outcome: std::io::Result<()> = async {
        let by_channel = open(&mut session, codec, &mut streams, &ports).await?;
        let by_stream = by_channel.iter().map(|(channel, stream)| (*stream, *channel)).collect();
        let (pings, asked) = mpsc::channel(8);
        tokio::select! {
            up = up(messages, session.clone(), codec, &mut streams, &by_channel, asked) => up,
            down = down(frames, session.clone(), codec, by_stream, pings) => down,
        }
    }
    .await;
    if let Err(error) = outcome {
        tracing::debug!(%error, "a forwarded connection broke");
    }
    streams.close().await;
    let _ = session.close(Some(CloseReason { code: CloseCode::Normal, description: None })).await;
}

/// Streams of the runtime by channel of the client.
async fn open(
    session: &mut Session,
    codec: Codec,
    streams: &mut Streams,
    ports: &[u16],
) -> std::io::Result<HashMap<u8, u32>> {
    let mut by_channel = HashMap::new();
    for (index, port) in (0u8..).zip(ports.iter().take(PORTS)) {
        let (number, id) = (port.to_string(), index.to_string());
        for (channel, kind) in [(index * 2 + 1, "error"), (index * 2, "data")] {
            let headers = [("streamtype", kind), ("port", number.as_str()), ("requestid", id.as_str())];
            let stream = streams.open(&headers).await?;
            by_channel.insert(channel, stream);
            if kind == "error" {
                streams.data(stream, &[], true).await?;
            }
            codec.send(session, channel, &port.to_le_bytes()).await;
        }
    }
    Ok(by_channel)
}

async fn up(
    mut messages: AggregatedMessageStream,
    mut session: Session,
    codec: Codec,
    streams: &mut Streams,
    by_channel: &HashMap<u8, u32>,
    mut pings: mpsc::Receiver<u32>,
) -> std::io::Result<()> {
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            Some(id) = pings.recv() => {
                streams.pong(id).await?;
                continue;
            }
        };
        let Some(Ok(message)) = message else { return Ok(()) };
        if let AggregatedMessage::Ping(data) = &message
            && session.pong(data).await.is_err()
        {
            return Ok(());
        }
        match codec.decode(message) {
            Input::Data { channel, data } if channel % 2 == 0 => {
                if let Some(stream) = by_channel.get(&channel) {
                    streams.data(*stream, &data, false).await?;
                }
            }
            Input::Closed => return Ok(()),
            _ => {}
        }
    }
}

async fn down(
    mut frames: Frames,
    mut session: Session,
    codec: Codec,
    mut by_stream: HashMap<u32, u8>,
    pings: mpsc::Sender<u32>,
) -> std::io::Result<()> {
    loop {
        let (stream, data, fin) = match frames.next().await? {
            Some(Frame::Data { stream, data, fin }) => (stream, data, fin),
            Some(Frame::Reset { stream }) => (stream, Bytes::new(), true),
            Some(Frame::Ping { id }) => {
                // One that is not answered is no harm.
                let _ = pings.try_send(id);
                continue;
            }
            Some(Frame::Other) => continue,
            Some(Frame::GoAway) | None => return Ok(()),
        };
        let Some(channel) = by_stream.get(&stream).copied() else { continue };
        if !data.is_empty() && !codec.send(&mut session, channel, &data).await {
            return Ok(());
        }
        if fin {
            by_stream.remove(&stream);
            // Without a data channel there is nothing left to carry.
            if !by_stream.values().any(|channel| channel % 2 == 0) {
                return Ok(());
            }
        }
    }
}
