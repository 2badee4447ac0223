//! The bearer token of calls.

use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::Token;
use crate::error::Error;

/// A file's token is read again when it is this old: kubelets renew projected tokens long before they expire.
const FRESH: Duration = Duration::from_secs(60);

/// Gives the token to send.
#[derive(Debug)]
pub(crate) struct Bearer {
    source: Token,
    cached: Mutex<Option<(Instant, String)>>,
}

impl Bearer {
    pub(crate) fn new(source: Token) -> Self {
        Self { source, cached: Mutex::new(None) }
    }

    /// `Bearer …`, the value of the authorization header.
    pub(crate) fn header(&self) -> Result<String, Error> {
        match &self.source {
            Token::Fixed(token) => Ok(format!("Bearer {token}")),
            Token::File(path) => self.read(path),
        }
    }

    fn read(&self, path: &Path) -> Result<String, Error> {
        let mut cached = self.cached.lock();
        if let Some((read, header)) = &*cached
            && read.elapsed() < FRESH
        {
            return Ok(header.clone());
        }
        match std::fs::read_to_string(path) {
            Ok(token) => {
                let header = format!("Bearer {}", token.trim());
                *cached = Some((Instant::now(), header.clone()));
                Ok(header)
            }
            // A token that could be read before may still be good: the server decides.
            Err(error) => match &*cached {
                Some((_, header)) => Ok(header.clone()),
                None => Err(Error::Config(format!("cannot read {}: {error}", path.display()))),
            },
        }
    }
}
