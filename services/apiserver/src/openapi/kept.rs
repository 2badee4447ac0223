//! A document as it is kept: made once, compressed, which is a tenth of its text and what almost all clients ask for.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::stream;
use serde::Serialize;
use sha2::{Digest, Sha512};

use crate::pipeline::Body;

/// How much of a text is made at once for a client that does not take it compressed.
const CHUNK: usize = 64 << 10;

/// A document and the hash of its text.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) hash: String,
    compressed: Bytes,
}

// === impl Kept ===

impl Kept {
    /// Encodes a document. It is made of texts and values, which always have an encoding.
    pub(super) fn of(document: &impl Serialize) -> Self {
        let mut tee = Tee { digest: Sha512::new(), encoder: GzEncoder::new(Vec::new(), Compression::default()) };
        let encoded = serde_json::to_writer(io::BufWriter::with_capacity(CHUNK, &mut tee), document);
        debug_assert!(encoded.is_ok());
        Self {
            hash: hex::encode_upper(tee.digest.finalize()),
            compressed: tee.encoder.finish().unwrap_or_default().into(),
        }
    }

    /// The compressed document.
    pub(super) fn compressed(&self) -> Body {
        Body::Full(self.compressed.clone())
    }

    /// Its text, made piece by piece as the client takes it: who takes nothing costs next to nothing.
    pub(super) fn text(&self) -> Body {
        let decoder = GzDecoder::new(io::Cursor::new(self.compressed.clone()));
        Body::Stream(Box::pin(stream::iter(Pieces { decoder })))
    }
}

/// Writes to both.
struct Tee {
    digest: Sha512,
    encoder: GzEncoder<Vec<u8>>,
}

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.encoder.write_all(bytes)?;
        self.digest.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Pieces {
    decoder: GzDecoder<io::Cursor<Bytes>>,
}

impl Iterator for Pieces {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = Vec::with_capacity(CHUNK);
        match self.decoder.by_ref().take(CHUNK as u64).read_to_end(&mut piece) {
            Ok(0) => None,
            Ok(_) => Some(Ok(piece.into())),
            Err(error) => Some(Err(error)),
        }
    }
}
