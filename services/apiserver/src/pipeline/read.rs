//! Get and list: from the cache where it is fresh enough, else from the store.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};
use tokio::time::Instant;
use trireme_kinds::Kind;
use trireme_machinery::codec::json as go_json;
use trireme_machinery::status::{Reason, Status};
use trireme_machinery::{fields, labels};

use super::engine::{Engine, Target};
use super::options::{ListOptions, Match};
use super::{Context, Stored};
use crate::cache::{Ordered, Selection};
use crate::error::Error;
use crate::storage::client::{self, Page};

/// base64 as Go reads and writes it: bits that are left over are no error.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);
/// How long a linearizable read waits for the cache before it goes to the store.
const CACHE_PATIENCE: Duration = Duration::from_millis(100);
/// How long a read waits for a revision that is ahead of the cache.
const REVISION_PATIENCE: Duration = Duration::from_secs(3);

/// Objects of a kind at a revision.
#[derive(Debug)]
pub struct ListAnswer {
    /// The kind in the version that was asked for.
    pub kind: Arc<Kind>,
    /// The objects, ordered by key.
    pub items: Vec<Arc<Stored>>,
    /// The revision of the list.
    pub revision: i64,
    /// Where the rest begins.
    pub continue_token: String,
    /// How many are left behind it, where that is known.
    pub remaining: Option<i64>,
}

/// How fresh a read has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
    /// Linearizable.
    Newest,
    /// As it is.
    Any,
    /// At least this revision.
    AtLeast(i64),
}

/// Where a linearizable read can be served.
enum Source {
    Cache,
    Store,
}

// === impl Engine ===

impl Engine {
    /// One object; `revision` as in GetOptions.
    pub(crate) async fn get_object(
        &self,
        context: &Context,
        target: &Target,
        revision: Option<u64>,
    ) -> Result<Arc<Stored>, Status> {
        let kind = &target.kind;
        let key = self.key(kind, &target.namespace, &target.name);
        let found = match self.fresh(context, Fresh::of(revision)).await? {
            Source::Cache if !self.cache.is_unreadable(&kind.storage, &key) => self.cache.get(&kind.storage, &key),
            // The store's own answer says what is wrong with it.
            Source::Cache | Source::Store => self.read_key(kind, &key, context.deadline).await?.map(Arc::new),
        };
        found.ok_or_else(|| target.not_found())
    }

    /// One key of the store, linearizable.
    pub(crate) async fn read_key(&self, kind: &Kind, key: &str, deadline: Instant) -> Result<Option<Stored>, Status> {
        let (kv, _) = self.client.get(key, deadline).await?;
        kv.map(|kv| self.decode_stored(kind, &kv)).transpose()
    }

    /// Waits until the cache is as fresh as asked for. A linearizable read that the cache is late for goes to the store.
    async fn fresh(&self, context: &Context, fresh: Fresh) -> Result<Source, Status> {
        match fresh {
            Fresh::Any => {
                if !self.cache.head().synced && !self.cache.reached(0, context.deadline).await {
                    return Err(Status::too_many_requests("the API server's cache is not filled yet", 1));
                }
                Ok(Source::Cache)
            }
            Fresh::AtLeast(revision) => {
                let until = context.deadline.min(Instant::now() + REVISION_PATIENCE);
                if self.cache.reached(revision, until).await {
                    return Ok(Source::Cache);
                }
                Err(self.too_large(revision))
            }
            Fresh::Newest => {
                let revision = self.reads.get(context.deadline).await?;
                let until = context.deadline.min(Instant::now() + CACHE_PATIENCE);
                Ok(if self.cache.reached(revision, until).await { Source::Cache } else { Source::Store })
            }
        }
    }

    /// Waits for the cache; unlike a read, a watch has no other source.
    pub(crate) async fn fresh_cache(&self, context: &Context, fresh: Fresh) -> Result<(), Status> {
        if fresh != Fresh::Newest {
            return self.fresh(context, fresh).await.map(|_| ());
        }
        let revision = self.reads.get(context.deadline).await?;
        let until = context.deadline.min(Instant::now() + REVISION_PATIENCE);
        if self.cache.reached(revision, until).await { Ok(()) } else { Err(self.too_large(revision)) }
    }

    fn too_large(&self, asked: i64) -> Status {
        let number = |revision: i64| u64::try_from(revision).unwrap_or(0);
        Status::too_large_resource_version(number(asked), number(self.cache.head().revision), 1)
    }

    /// What a list or watch selects.
    pub(crate) fn selection(&self, target: &Target, options: &ListOptions) -> Result<Selection, Status> {
        let kind = &target.kind;
        let bad = |error: trireme_machinery::Error| Status::bad_request(error.to_string());
        let labels = labels::Selector::parse(&options.label_selector).map_err(bad)?;
        let parsed = fields::Selector::parse(&options.field_selector).map_err(bad)?;
        let known = kind.selectable_field_names();
        for requirement in parsed.requirements() {
            if !known.contains(&requirement.field.as_str()) {
                return Err(Status::bad_request(fields::unknown_field(&requirement.field, &known)));
            }
        }
        let name = if target.name.is_empty() {
            parsed.requires_exact("metadata.name").unwrap_or_default()
        } else {
            &target.name
        };
        let one = !name.is_empty() && (!kind.namespaced || !target.namespace.is_empty());
        let stored = self.codec(kind)?;
        let same = stored.kind.api_version() == kind.api_version();
        Ok(Selection {
            prefix: self.key(kind, &target.namespace, ""),
            key: one.then(|| self.key(kind, &target.namespace, name)),
            labels,
            fields: parsed,
            converted: (!same).then(|| kind.clone()),
        })
    }

    /// A list.
    pub(crate) async fn list_objects(
        &self,
        context: &Context,
        target: &Target,
        options: &ListOptions,
    ) -> Result<ListAnswer, Status> {
        let selection = self.selection(target, options)?;
        if !options.continue_token.is_empty() {
            let token = Token::read(&options.continue_token)?;
            let limit = options.limit;
            return match token.revision {
                // The rest, as it is now: the answer to a token that was too old.
                -1 => self.list_at(context, target, &selection, 0, &token.start, limit).await,
                revision => match self.list_at(context, target, &selection, revision, &token.start, limit).await {
                    Err(status) if status.is_gone() => Err(Token::expired(&token.start)),
                    other => other,
                },
            };
        }
        let exact = match (options.matching, options.revision) {
            (Some(Match::Exact), Some(revision)) => Some(revision),
            // A limit without a match is an old form of the same.
            (None, Some(revision)) if revision > 0 && options.limit > 0 => Some(revision),
            _ => None,
        };
        if let Some(revision) = exact {
            let revision = i64::try_from(revision).unwrap_or(i64::MAX);
            self.fresh(context, Fresh::AtLeast(revision)).await?;
            return self.list_at(context, target, &selection, revision, "", options.limit).await;
        }
        let limit = if options.revision == Some(0) { 0 } else { options.limit };
        match self.fresh(context, Fresh::of(options.revision)).await? {
            Source::Cache => self.list_cached(target, &selection, limit),
            Source::Store => self.list_at(context, target, &selection, 0, "", limit).await,
        }
    }

    fn list_cached(&self, target: &Target, selection: &Selection, limit: usize) -> Result<ListAnswer, Status> {
        let (snapshot, revision) = self.cache.snapshot(&target.kind.storage).ok_or_else(Status::unknown_resource)?;
        snapshot.check(selection)?;
        Ok(page_of(&target.kind, &snapshot.items, selection, limit, revision))
    }

    /// A list from the store at a revision (0: the newest), from behind `start` (relative to the selection's prefix).
    async fn list_at(
        &self,
        context: &Context,
        target: &Target,
        selection: &Selection,
        revision: i64,
        start: &str,
        limit: usize,
    ) -> Result<ListAnswer, Status> {
        const STEP: usize = 500;
        let prefix = &selection.prefix;
        // A token's start ends in a zero byte: the first key behind the one it names.
        let mut after = match start.strip_suffix('\0') {
            Some(name) => format!("{prefix}{name}"),
            None => String::new(),
        };
        let mut at = revision;
        let mut items: Vec<Arc<Stored>> = Vec::new();
        let step = if limit > 0 && selection.is_plain() { limit + 1 } else { STEP };
        loop {
            let page = Page { after: &after, limit: i64::try_from(step).unwrap_or(i64::MAX), revision: at };
            let answer = self.client.page(prefix, page, context.deadline).await.map_err(|error| match error {
                Error::Future => self.too_large(at),
                Error::Compacted => Status::expired(format!(
                    "The provided from parameter is too old to display a consistent list result. \
                     The resourceVersion for the provided list is too old: {at}"
                )),
                other => other.status(),
            })?;
            if at == 0 {
                at = client::revision(&answer);
            }
            let (count, more) = (answer.count, answer.more);
            for (index, kv) in answer.kvs.iter().enumerate() {
                let stored = self.decode_stored(&target.kind, kv)?;
                let key = stored.key.to_string();
                if selection.holds(&stored) {
                    if limit > 0 && items.len() == limit {
                        let left = count - i64::try_from(index).unwrap_or(0);
                        let remaining = selection.is_plain().then_some(left);
                        return Ok(ListAnswer {
                            kind: target.kind.clone(),
                            continue_token: Token::after(&items, prefix, at),
                            items,
                            revision: at,
                            remaining,
                        });
                    }
                    items.push(Arc::new(stored));
                }
                after = key;
            }
            if !more {
                let kind = target.kind.clone();
                return Ok(ListAnswer { kind, items, revision: at, continue_token: String::new(), remaining: None });
            }
        }
    }
}

// === impl Fresh ===

impl Fresh {
    /// What a resourceVersion asks for.
    pub(crate) fn of(revision: Option<u64>) -> Self {
        match revision {
            None => Self::Newest,
            Some(0) => Self::Any,
            Some(revision) => Self::AtLeast(i64::try_from(revision).unwrap_or(i64::MAX)),
        }
    }
}

fn page_of(kind: &Arc<Kind>, all: &Ordered, selection: &Selection, limit: usize, revision: i64) -> ListAnswer {
    let mut answer =
        ListAnswer { kind: kind.clone(), items: Vec::new(), revision, continue_token: String::new(), remaining: None };
    if let Some(key) = &selection.key {
        answer.items = all.get(key).filter(|object| selection.holds(object)).cloned().into_iter().collect();
        return answer;
    }
    let mut rest = all.range(&selection.prefix, "").filter(|object| selection.holds(object));
    if limit == 0 {
        answer.items = rest.cloned().collect();
        return answer;
    }
    answer.items = rest.by_ref().take(limit).cloned().collect();
    let left = if selection.is_plain() { rest.count() } else { usize::from(rest.next().is_some()) };
    if left > 0 {
        answer.continue_token = Token::after(&answer.items, &selection.prefix, revision);
        answer.remaining = selection.is_plain().then(|| i64::try_from(left).unwrap_or(i64::MAX));
    }
    answer
}

/// Where a list goes on: upstream's continue token.
struct Token {
    revision: i64,
    /// Relative to the list's prefix.
    start: String,
}

// === impl Token ===

impl Token {
    /// A token behind the last of these objects.
    fn after(items: &[Arc<Stored>], prefix: &str, revision: i64) -> String {
        let last = items.last().map_or("", |object| object.key.strip_prefix(prefix).unwrap_or(&object.key));
        Self { revision, start: format!("{last}\0") }.write()
    }

    fn write(&self) -> String {
        let text = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start}).to_string();
        BASE64.encode(text)
    }

    fn read(text: &str) -> Result<Self, Status> {
        let refuse = |why: String| Status::bad_request(format!("invalid continue token: {why}"));
        let bad = |why: String| refuse(format!("continue key is not valid: {why}"));
        let bytes = BASE64.decode(text.trim_end_matches('=')).map_err(|error| {
            use base64::DecodeError::{InvalidByte, InvalidLastSymbol};
            let at = match error {
                InvalidByte(at, _) | InvalidLastSymbol(at, _) => at,
                _ => text.len(),
            };
            bad(format!("illegal base64 data at input byte {at}"))
        })?;
        let value = go_json::parse(&bytes).map_err(|error| bad(error.to_string()))?.value;
        if value["v"] != "meta.k8s.io/v1" {
            let version = value["v"].as_str().unwrap_or_default();
            return Err(refuse(format!(
                "continue key is not valid: server does not recognize this encoded version {version}"
            )));
        }
        let revision = value["rv"].as_i64().unwrap_or(0);
        if revision == 0 {
            return Err(refuse(
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
                    .to_owned(),
            ));
        }
        let start = value["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(refuse(
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        if start.contains("/../") || start.starts_with("../") || start.starts_with('/') {
            return Err(refuse(format!("continue key is not valid: {start}")));
        }
        Ok(Self { revision, start: start.to_owned() })
    }

    /// 410 with a token that goes on in the state as it is.
    fn expired(start: &str) -> Status {
        let mut status = Status::failure(
            410,
            Reason::Expired,
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
             results. Continuing with the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        let token = Self { revision: -1, start: start.to_owned() }.write();
        status.metadata = Value::Object(serde_json::Map::from_iter([("continue".to_owned(), Value::String(token))]));
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_upstreams() {
        let token = Token { revision: 7, start: "a/b\0".to_owned() };
        let read = Token::read(&token.write()).unwrap();
        assert_eq!((read.revision, read.start.as_str()), (7, "a/b\0"));
        let refusal = Token::read("garbage").err().unwrap();
        assert_eq!(
            refusal.message,
            "invalid continue token: continue key is not valid: \
             invalid character '\\u0081' looking for beginning of value"
        );
        assert_eq!(refusal.code, 400);
    }
}
