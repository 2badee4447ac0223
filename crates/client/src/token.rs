//! The bearer token of calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::Client;
use crate::config::Token;
use crate::context;
use crate::error::Error;
use crate::params::PostParams;

/// A file's token is read again when it is this old: kubelets renew projected tokens long before they expire.
const FRESH: Duration = Duration::from_secs(60);
/// How long a requested token is to live. It is asked for again after four fifths of that.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Gives the token to send.
pub(crate) struct Bearer {
    source: Source,
    /// The header and until when it is used. Whoever needs a new one waits for the one who asks.
    cached: Mutex<Option<(Instant, String)>>,
}

enum Source {
    Fixed(String),
    File(PathBuf),
    Requested(Box<Account>),
}

/// A service account, and a client that may ask for its tokens.
#[derive(Debug)]
struct Account {
    asker: Client,
    namespace: String,
    name: String,
}

impl std::fmt::Debug for Bearer {
    /// Where the token comes from, not what it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.source {
            Source::Fixed(_) => "Bearer of a fixed token",
            Source::File(_) => "Bearer of a file's token",
            Source::Requested(_) => "Bearer of a requested token",
        })
    }
}

impl Bearer {
    pub(crate) fn new(token: Token) -> Self {
        let source = match token {
            Token::Fixed(token) => Source::Fixed(format!("Bearer {token}")),
            Token::File(path) => Source::File(path),
        };
        Self { source, cached: Mutex::new(None) }
    }

    /// Tokens of a service account, asked for by TokenRequest. The account is made if it is not there.
    pub(crate) fn requested(asker: Client, namespace: &str, name: &str) -> Self {
        let account = Account { asker, namespace: namespace.to_owned(), name: name.to_owned() };
        Self { source: Source::Requested(Box::new(account)), cached: Mutex::new(None) }
    }

    /// `Bearer …`, the value of the authorization header.
    pub(crate) async fn header(&self) -> Result<String, Error> {
        if let Source::Fixed(header) = &self.source {
            return Ok(header.clone());
        }
        let mut cached = self.cached.lock().await;
        if let Some((until, header)) = &*cached
            && *until > Instant::now()
        {
            return Ok(header.clone());
        }
        let fresh = match &self.source {
            Source::Fixed(header) => Ok((FRESH, header.clone())),
            Source::File(path) => read(path).map(|token| (FRESH, token)),
            Source::Requested(account) => {
                // A new scope: the token is nobody's write, and belongs to no trace.
                let token = context::untraced(account.token()).await;
                token.map(|token| (LIFETIME * 4 / 5, token))
            }
        };
        match (fresh, &*cached) {
            (Ok((lifetime, header)), _) => {
                *cached = Some((Instant::now() + lifetime, header.clone()));
                Ok(header)
            }
            // A token that could be had before may still be good: the server decides.
            (Err(_), Some((_, header))) => Ok(header.clone()),
            (Err(error), None) => Err(error),
        }
    }

    /// The server refused the token: the next call has a new one.
    pub(crate) async fn refused(&self) {
        *self.cached.lock().await = None;
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let token = std::fs::read_to_string(path);
    let token = token.map_err(|e| Error::Config(format!("cannot read {}: {e}", path.display())))?;
    Ok(format!("Bearer {}", token.trim()))
}

impl Account {
    async fn token(&self) -> Result<String, Error> {
        match self.ask().await {
            Err(error) if error.is_not_found() => {
                self.make().await?;
                self.ask().await
            }
            other => other,
        }
    }

    async fn ask(&self) -> Result<String, Error> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME.as_secs()},
        });
        let accounts = self.asker.namespaced::<ServiceAccount>(&self.namespace);
        let answer = accounts.create_subresource(&self.name, "token", &request).await?;
        let token = answer.pointer("/status/token").and_then(Value::as_str);
        token.map(|t| format!("Bearer {t}")).ok_or_else(|| Error::decode("TokenRequest", "no token in its status"))
    }

    async fn make(&self) -> Result<(), Error> {
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        let accounts = self.asker.namespaced::<ServiceAccount>(&self.namespace);
        match accounts.create(&PostParams::default(), &account).await {
            Err(error) if error.is_already_exists() => Ok(()),
            other => other.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown() {
        let token = Token::Fixed("hidden".to_owned());
        let shown = format!("{token:?} {:?}", Bearer::new(token.clone()));
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
