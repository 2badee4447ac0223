//! Cuts a body into lines however it was cut into chunks.

use bytes::{Bytes, BytesMut};

/// Collects chunks and gives back whole lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    searched: usize,
}

impl Lines {
    /// Adds a chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole line without its end; empty lines are left out.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = self.buffer.split_to(self.searched + at + 1).freeze();
            self.searched = 0;
            let line = line.slice(..line.len() - 1);
            if !line.is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_were_cut() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\n{\"c\":";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk);
                while let Some(line) = lines.next() {
                    got.push(line);
                }
            }
            assert_eq!(got, vec![Bytes::from_static(b"{\"a\":1}"), Bytes::from_static(b"{\"b\":2}")]);
        }
    }
}
