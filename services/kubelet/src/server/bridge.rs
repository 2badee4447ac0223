//! exec and attach: channels of a client's WebSocket to streams of the runtime's SPDY, both ways at once. Neither way
//! may wait for the other: a command that copies its input to its output reads only as long as its output is taken.

use super::outcome;
use super::spdy::{self, Frame, Frames, Streams};
use super::websocket::{Codec, Input};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, Session};
use futures::StreamExt as _;
use serde_json::Value;
use std::collections::HashMap;
use tokio::sync::mpsc;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// Of runtimes.
const RUNTIME: [&str; 1] = ["v4.channel.k8s.io"];
/// Last words that are longer are cut off.
const LAST_WORDS: usize = 1 << 20;

/// Which streams a command has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Channels {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl Channels {
    pub(super) fn any(self) -> bool {
        self.stdin || self.stdout || self.stderr
    }
}

/// The client's end.
pub(super) struct Client {
    pub(super) session: Session,
    pub(super) messages: AggregatedMessageStream,
    pub(super) codec: Codec,
    /// It speaks version 5: see [`outcome`].
    pub(super) translated: bool,
}

/// Carries until the command has ended or the client is gone.
pub(super) async fn run(mut client: Client, url: String, channels: Channels) {
    // An empty message says that the connection stands.
    let first = if channels.stdout {
        STDOUT
    } else if channels.stderr {
        STDERR
    } else {
        ERROR
    };
    client.codec.send(&mut client.session, first, &[]).await;
    let status = match connect(&url, channels).await {
        Ok((frames, streams, opened)) => carry(&mut client, frames, streams, opened).await,
        Err(error) => Some(outcome::internal(&error.to_string())),
    };
    if let Some(status) = status {
        client.codec.send(&mut client.session, ERROR, status.to_string().as_bytes()).await;
    }
    // The client may be gone already.
    let _ = client.session.close(Some(CloseReason { code: CloseCode::Normal, description: None })).await;
}

async fn connect(url: &str, channels: Channels) -> crate::error::Result<(Frames, Streams, HashMap<u8, u32>)> {
    let (frames, mut streams) = spdy::upgrade(url, &RUNTIME).await?.split();
    let opened = open(&mut streams, channels).await;
    let opened =
        opened.map_err(|error| crate::error::Error::Pod(format!("the runtime's streaming server: {error}")))?;
    Ok((frames, streams, opened))
}

/// Streams by channel, in the order in which runtimes await them.
async fn open(streams: &mut Streams, channels: Channels) -> std::io::Result<HashMap<u8, u32>> {
    let all = [
        (ERROR, "error", true),
        (STDIN, "stdin", channels.stdin),
        (STDOUT, "stdout", channels.stdout),
        (STDERR, "stderr", channels.stderr),
        (RESIZE, "resize", channels.tty),
    ];
    let mut opened = HashMap::new();
    for (channel, name, _) in all.into_iter().filter(|(_, _, wanted)| *wanted) {
        opened.insert(channel, streams.open(&[("streamtype", name)]).await?);
    }
    Ok(opened)
}

/// Both ways at once. What the client is still to be told at the end, if it is there and was not told by the runtime.
async fn carry(client: &mut Client, frames: Frames, mut streams: Streams, opened: HashMap<u8, u32>) -> Option<Value> {
    let (pings, asked) = mpsc::channel(8);
    let mut session = client.session.clone();
    let up = up(&mut client.messages, session.clone(), client.codec, &mut streams, &opened, asked);
    let down = down(frames, &mut session, client.codec, &opened, client.translated, pings);
    let ended = tokio::select! {
        () = up => Ended::Gone,
        ended = down => ended,
    };
    streams.close().await;
    match ended {
        Ended::Gone => None,
        Ended::Told(words) => client.translated.then(|| outcome::of_runtime(&words)),
        Ended::Broken(why) => Some(outcome::internal(&format!("error reading from error stream: {why}"))),
    }
}

/// How it ended.
enum Ended {
    /// Nobody is there any more.
    Gone,
    /// With the runtime's last words.
    Told(Vec<u8>),
    /// The runtime went away.
    Broken(String),
}

/// From the client to the runtime; returns when the client is gone.
async fn up(
    messages: &mut AggregatedMessageStream,
    mut session: Session,
    codec: Codec,
    streams: &mut Streams,
    opened: &HashMap<u8, u32>,
    mut pings: mpsc::Receiver<u32>,
) {
    let mut open = true;
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            Some(id) = pings.recv() => {
                open &= streams.pong(id).await.is_ok();
                continue;
            }
        };
        let Some(Ok(message)) = message else { return };
        if let AggregatedMessage::Ping(data) = &message
            && session.pong(data).await.is_err()
        {
            return;
        }
        let written = match codec.decode(message) {
            Input::Closed => return,
            // After the command's end nobody reads any more; what it said is still on its way to the client.
            _ if !open => continue,
            Input::Data { channel: channel @ (STDIN | RESIZE), data } => match opened.get(&channel) {
                Some(stream) => streams.data(*stream, &data, false).await,
                None => continue,
            },
            Input::End { channel: channel @ (STDIN | RESIZE) } => match opened.get(&channel) {
                Some(stream) => streams.data(*stream, &[], true).await,
                None => continue,
            },
            _ => continue,
        };
        if let Err(error) = written {
            tracing::debug!(%error, "the runtime takes no more input");
            open = false;
        }
    }
}

/// From the runtime to the client, until the runtime has ended all that it writes to.
async fn down(
    mut frames: Frames,
    session: &mut Session,
    codec: Codec,
    opened: &HashMap<u8, u32>,
    translated: bool,
    pings: mpsc::Sender<u32>,
) -> Ended {
    let by_stream: HashMap<u32, u8> = opened.iter().map(|(channel, stream)| (*stream, *channel)).collect();
    let mut awaited: Vec<u8> =
        opened.keys().copied().filter(|channel| matches!(*channel, STDOUT | STDERR | ERROR)).collect();
    let mut last_words = Vec::new();
    while !awaited.is_empty() {
        let (stream, data, fin) = match frames.next().await {
            Ok(Some(Frame::Data { stream, data, fin })) => (stream, data, fin),
            Ok(Some(Frame::Reset { stream })) => (stream, bytes::Bytes::new(), true),
            Ok(Some(Frame::Ping { id })) => {
                // One that is not answered is no harm.
                let _ = pings.try_send(id);
                continue;
            }
            Ok(Some(Frame::Other)) => continue,
            Ok(Some(Frame::GoAway) | None) => return Ended::Broken("EOF".into()),
            Err(error) => return Ended::Broken(error.to_string()),
        };
        let Some(channel) = by_stream.get(&stream).copied() else { continue };
        if channel == ERROR && translated {
            last_words.extend_from_slice(&data[..data.len().min(LAST_WORDS - last_words.len())]);
        } else if !data.is_empty() && !codec.send(session, channel, &data).await {
            return Ended::Gone;
        }
        if fin {
            awaited.retain(|known| *known != channel);
        }
    }
    Ended::Told(last_words)
}
