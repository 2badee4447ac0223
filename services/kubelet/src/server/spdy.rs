//! SPDY/3.1 as a client, as far as the streaming servers of container runtimes speak it.
//!
//! Runtimes serve exec, attach and port-forward over SPDY: their WebSockets cannot close standard input alone. Headers of
//! ours are compressed by zlib's stored blocks, headers of theirs are not read (a reply says only that a stream stands),
//! so neither side needs the protocol's dictionary.

use crate::error::{Error, Result};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

const FIN: u8 = 1;
const CONTROL: u16 = 0x8000 | 3;
const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// Data of one frame; the format takes 2^24 - 1.
const FRAME: usize = 32 << 10;
const MAX_FRAME: usize = 16 << 20;
const MAX_HEAD: usize = 64 << 10;

/// A connection whose protocol was switched.
pub(super) struct Upgraded {
    pub(super) stream: TcpStream,
    /// What the server sent after its head.
    pub(super) early: Bytes,
}

/// Asks the runtime's streaming server to switch.
pub(super) async fn upgrade(url: &str, protocols: &[&str]) -> Result<Upgraded> {
    let failed = |why: String| Error::Pod(format!("the runtime's streaming server: {why}"));
    let parsed = url::Url::parse(url).map_err(|error| failed(format!("{url}: {error}")))?;
    if parsed.scheme() != "http" {
        return Err(failed(format!("{} is not supported; disable enable_tls_streaming", parsed.scheme())));
    }
    let host = parsed.host_str().unwrap_or("127.0.0.1").trim_matches(['[', ']']);
    let port = parsed.port_or_known_default().unwrap_or(80);
    let mut stream = TcpStream::connect((host, port)).await.map_err(|error| failed(error.to_string()))?;
    stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
    let versions: String = protocols.iter().map(|one| format!("X-Stream-Protocol-Version: {one}\r\n")).collect();
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n{versions}Content-Length: 0\r\n\r\n",
        &parsed[url::Position::BeforePath..],
        &parsed[url::Position::BeforeHost..url::Position::AfterPort],
    );
    stream.write_all(request.as_bytes()).await.map_err(|error| failed(error.to_string()))?;
    let mut head = BytesMut::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await.map_err(|error| failed(error.to_string()))? == 0 {
            return Err(failed("it closed the connection".into()));
        }
    };
    let early = head.split_off(end).freeze();
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("101") {
        return Err(failed(format!("{status} {}", String::from_utf8_lossy(&early))));
    }
    let protocol = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("x-stream-protocol-version"))
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default();
    // A server that names none speaks the only one there was before it was asked for.
    if !protocol.is_empty() && !protocols.contains(&protocol.as_str()) {
        return Err(failed(format!("it speaks {protocol}, not {}", protocols.join(" or "))));
    }
    Ok(Upgraded { stream, early })
}

impl Upgraded {
    /// The two halves of the SPDY session.
    pub(super) fn split(self) -> (Frames, Streams) {
        let (read, write) = tokio::io::split(self.stream);
        (Frames { read, buffer: BytesMut::from(&self.early[..]) }, Streams { write, next: 1, headers_began: false })
    }
}

/// What the other side sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    Data {
        stream: u32,
        data: Bytes,
        fin: bool,
    },
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// A reply, a setting: nothing that matters here.
    Other,
}

/// Reads frames.
pub(super) struct Frames {
    read: ReadHalf<TcpStream>,
    buffer: BytesMut,
}

impl Frames {
    /// The next frame; none at the end.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = parse(&mut self.buffer)? {
                return Ok(Some(frame));
            }
            if self.read.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

fn parse(buffer: &mut BytesMut) -> std::io::Result<Option<Frame>> {
    if buffer.len() < 8 {
        return Ok(None);
    }
    let word = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
    let flags = buffer[4];
    let length = u32::from_be_bytes([0, buffer[5], buffer[6], buffer[7]]) as usize;
    if length > MAX_FRAME {
        return Err(std::io::Error::other("a SPDY frame is too long"));
    }
    if buffer.len() < 8 + length {
        return Ok(None);
    }
    buffer.advance(8);
    let payload = buffer.split_to(length).freeze();
    if word & 0x8000_0000 == 0 {
        return Ok(Some(Frame::Data { stream: word, data: payload, fin: flags & FIN != 0 }));
    }
    let number = || payload.get(..4).map(|four| u32::from_be_bytes([four[0] & 0x7f, four[1], four[2], four[3]]));
    let frame = match (word & 0xffff) as u16 {
        RST_STREAM => number().map(|stream| Frame::Reset { stream }),
        PING => number().map(|id| Frame::Ping { id }),
        GOAWAY => Some(Frame::GoAway),
        _ => None,
    };
    Ok(Some(frame.unwrap_or(Frame::Other)))
}

/// Opens streams and writes to them.
pub(super) struct Streams {
    write: WriteHalf<TcpStream>,
    next: u32,
    headers_began: bool,
}

impl Streams {
    /// Opens a stream with these headers (names in lower case).
    pub(super) async fn open(&mut self, headers: &[(&str, &str)]) -> std::io::Result<u32> {
        let id = self.next;
        self.next += 2;
        let block = self.header_block(headers);
        let mut frame = BytesMut::new();
        frame.put_u16(CONTROL);
        frame.put_u16(SYN_STREAM);
        frame.put_u32((10 + block.len()) as u32);
        frame.put_u32(id);
        frame.put_u32(0);
        frame.put_u16(0);
        frame.put_slice(&block);
        self.write.write_all(&frame).await?;
        Ok(id)
    }

    /// zlib: one stored block with the headers, and an empty one, which makes the reader hand out what it has.
    fn header_block(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = Vec::new();
        plain.put_u32(headers.len() as u32);
        for (name, value) in headers {
            for text in [name, value] {
                plain.put_u32(text.len() as u32);
                plain.put_slice(text.as_bytes());
            }
        }
        let mut block = Vec::new();
        if !self.headers_began {
            block.put_slice(&[0x78, 0x01]);
            self.headers_began = true;
        }
        for part in [plain.as_slice(), &[]] {
            let length = part.len() as u16;
            block.put_u8(0);
            block.put_u16_le(length);
            block.put_u16_le(!length);
            block.put_slice(part);
        }
        block
    }

    /// Writes to a stream; `fin` ends our side of it.
    pub(super) async fn data(&mut self, stream: u32, data: &[u8], fin: bool) -> std::io::Result<()> {
        let mut chunks = data.chunks(FRAME).peekable();
        if data.is_empty() {
            return self.frame(stream, &[], fin).await;
        }
        while let Some(chunk) = chunks.next() {
            self.frame(stream, chunk, fin && chunks.peek().is_none()).await?;
        }
        Ok(())
    }

    async fn frame(&mut self, stream: u32, data: &[u8], fin: bool) -> std::io::Result<()> {
        let mut frame = BytesMut::with_capacity(8 + data.len());
        frame.put_u32(stream & 0x7fff_ffff);
        frame.put_u32((u32::from(if fin { FIN } else { 0 }) << 24) | data.len() as u32);
        frame.put_slice(data);
        self.write.write_all(&frame).await
    }

    /// Answers a ping.
    pub(super) async fn pong(&mut self, id: u32) -> std::io::Result<()> {
        let mut frame = BytesMut::new();
        frame.put_u16(CONTROL);
        frame.put_u16(PING);
        frame.put_u32(4);
        frame.put_u32(id);
        self.write.write_all(&frame).await
    }

    /// Ends the connection.
    pub(super) async fn close(&mut self) {
        // Nothing is lost when it is closed already.
        let _ = self.write.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 5, 1, 0, 0, 2, b'h', b'i', 0x80][..]);
        let data = Frame::Data { stream: 5, data: Bytes::from_static(b"hi"), fin: true };
        assert_eq!(parse(&mut buffer).unwrap(), Some(data));
        assert_eq!(parse(&mut buffer).unwrap(), None, "the rest is not there yet");
        let mut ping = BytesMut::from(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9][..]);
        assert_eq!(parse(&mut ping).unwrap(), Some(Frame::Ping { id: 9 }));
        let mut long = BytesMut::from(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff][..]);
        assert_eq!(parse(&mut long).unwrap(), None);
    }
}
