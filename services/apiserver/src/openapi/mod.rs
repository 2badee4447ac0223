//! OpenAPI: `/openapi/v3` (an index and a document for each group and version) and `/openapi/v2` (all in one).
//!
//! Documents are made from the kinds' schemas when one is asked for, on a thread of its own and once; they are kept
//! compressed.
//!
//! | module | concern |
//! |---|---|
//! | [`encoded`] | parts of a document, which are text as soon as they are made |
//! | [`kept`] | a document that is made, compressed |
//! | [`schemas`] | types as schemas, with list types, merge keys, defaults and descriptions |
//! | [`paths`] | resources as paths and operations |
//! | [`names`] | operation ids, tags, paths of documents |

mod encoded;
mod kept;
mod names;
mod paths;
mod schemas;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};
use trireme_kinds::Registry;
use trireme_machinery::status::Status;

use crate::discovery::GROUPS;
use crate::pipeline::{Answer, Body, Documents, RawAnswer, Request};
use encoded::Encoded;
use kept::Kept;
use schemas::{Dialect, Schemas};

const V2_TYPES: [&str; 1] = ["application/json"];
const PREFIX: &str = "/openapi/v3";
const TITLE: &str = "Kubernetes";

/// Answers `/openapi/…`.
#[derive(Clone)]
pub struct OpenApi {
    registry: Arc<Registry>,
    index: Arc<OnceLock<Index>>,
    v2: Arc<OnceLock<Kept>>,
}

/// A document of OpenAPI 3.0. Here and below, fields stand in the order in which they are encoded.
#[derive(Serialize)]
struct V3 {
    components: Components,
    info: Info,
    openapi: &'static str,
    paths: Encoded,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Components {
    schemas: Encoded,
    security_schemes: Value,
}

/// A document of Swagger 2.0.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct V2 {
    definitions: Encoded,
    info: Info,
    paths: Encoded,
    security: Value,
    security_definitions: Value,
    swagger: &'static str,
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    version: &'static str,
}

struct Index {
    body: Bytes,
    etag: String,
    documents: BTreeMap<String, Kept>,
}

impl OpenApi {
    /// The documents of these kinds.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        Self { registry, index: Arc::default(), v2: Arc::default() }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut listed = Map::new();
            let mut documents = BTreeMap::new();
            for (group, version) in self.group_versions() {
                let key = names::document_key(&group, &version);
                let document = self.document(&group, &version, Kept::of);
                let url = format!("{PREFIX}/{key}?hash={}", document.hash);
                listed.insert(key.clone(), json!({"serverRelativeURL": url}));
                documents.insert(key, document);
            }
            let body = Bytes::from(json!({ "paths": listed }).to_string());
            let etag = format!("\"{}\"", hash(&body));
            Index { body, etag, documents }
        })
    }

    fn group_versions(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        for kind in self.registry.iter() {
            let pair = (kind.group.clone(), kind.version.clone());
            if !all.contains(&pair) {
                all.push(pair);
            }
        }
        let place = |group: &str| GROUPS.iter().position(|known| *known == group).unwrap_or(GROUPS.len());
        all.sort_by_key(|(group, _)| place(group));
        all
    }

    /// The document of one group and version, in the form that `encode` gives it.
    fn document<T>(&self, group: &str, version: &str, encode: fn(&V3) -> T) -> T {
        let mut schemas = Schemas::new(&self.registry, Dialect::V3);
        let mut paths = Encoded::default();
        paths::add(&self.registry, group, version, &mut schemas, &mut paths);
        encode(&V3 {
            openapi: "3.0.0",
            info: Info { title: TITLE, version: "1.37" },
            paths,
            components: Components { schemas: schemas.finish(), security_schemes: bearer_token() },
        })
    }

    /// Everything in the form of Swagger 2.0.
    fn swagger<T>(&self, encode: fn(&V2) -> T) -> T {
        let mut schemas = Schemas::new(&self.registry, Dialect::V2);
        let mut paths = Encoded::default();
        for (group, version) in self.group_versions() {
            paths::add(&self.registry, &group, &version, &mut schemas, &mut paths);
        }
        encode(&V2 {
            swagger: "2.0",
            info: Info { title: TITLE, version: "v1.37.2" },
            paths,
            definitions: schemas.finish(),
            security_definitions: bearer_token(),
            security: json!([{"BearerToken": []}]),
        })
    }

    fn v3(&self, key: &str, request: &Request) -> Option<Answer> {
        let index = self.index();
        let kept = index.documents.get(key)?;
        let asked = request.param("hash");
        if asked.is_some_and(|asked| asked != kept.hash) && !is_known(kept, request) {
            let location = format!("{PREFIX}/{key}?hash={}", kept.hash);
            let headers = vec![("Location".to_owned(), location)];
            let body = Body::Full(Bytes::new());
            return Some(Answer::Raw(RawAnswer { code: 301, content_type: "application/json".into(), headers, body }));
        }
        Some(answer(kept, request, asked.is_some()))
    }

    fn v2(&self) -> &Kept {
        self.v2.get_or_init(|| self.swagger(Kept::of))
    }
}

fn is_known(kept: &Kept, request: &Request) -> bool {
    request.if_none_match.as_deref().and_then(|etag| etag.strip_prefix('"')?.strip_suffix('"'))
        == Some(kept.hash.as_str())
}

/// A document, as the client takes it.
fn answer(kept: &Kept, request: &Request, immutable: bool) -> Answer {
    let etag = format!("\"{}\"", kept.hash);
    if is_known(kept, request) {
        return document(304, Body::Full(Bytes::new()), etag, false);
    }
    if !request.gzip {
        return document(200, kept.text(), etag, immutable);
    }
    let mut answer = document(200, kept.compressed(), etag, immutable);
    if let Answer::Raw(raw) = &mut answer {
        raw.headers.push(("Content-Encoding".to_owned(), "gzip".to_owned()));
    }
    answer
}

impl Documents for OpenApi {
    fn unmade(&self, request: &Request) -> Option<Box<dyn FnOnce() + Send>> {
        let this = self.clone();
        match request.info.path.as_str() {
            "/openapi/v2" if self.v2.get().is_none() => Some(Box::new(move || _ = this.v2())),
            path if path.starts_with(PREFIX) && self.index.get().is_none() => Some(Box::new(move || _ = this.index())),
            _ => None,
        }
    }

    fn handle(&self, request: &Request) -> Option<Answer> {
        let path = request.info.path.as_str();
        if path == "/openapi/v2" {
            return Some(if accepts_json(&request.accept) {
                answer(self.v2(), request, false)
            } else {
                not_acceptable()
            });
        }
        let rest = path.strip_prefix(PREFIX)?;
        if rest.is_empty() || rest == "/" {
            let index = self.index();
            if request.if_none_match.as_deref() == Some(index.etag.as_str()) {
                return Some(document(304, Body::Full(Bytes::new()), index.etag.clone(), false));
            }
            return Some(document(200, Body::Full(index.body.clone()), index.etag.clone(), false));
        }
        let key = rest.strip_prefix('/')?;
        if !accepts_json(&request.accept) {
            return Some(not_acceptable());
        }
        Some(self.v3(key, request).unwrap_or_else(missing))
    }
}

/// Upstream says nothing more.
fn missing() -> Answer {
    Answer::Raw(RawAnswer {
        code: 404,
        content_type: String::new(),
        headers: Vec::new(),
        body: Body::Full(Bytes::new()),
    })
}

fn accepts_json(accept: &str) -> bool {
    accept.is_empty()
        || accept.split(',').any(|clause| {
            matches!(clause.split(';').next().unwrap_or_default().trim(), "application/json" | "application/*" | "*/*")
        })
}

fn not_acceptable() -> Answer {
    Answer::Status(Box::new(Status::not_acceptable(V2_TYPES)))
}

fn document(code: u16, body: Body, etag: String, immutable: bool) -> Answer {
    let mut headers = vec![("ETag".to_owned(), etag), ("Vary".to_owned(), "Accept-Encoding, Accept".to_owned())];
    if immutable {
        headers.push(("Cache-Control".to_owned(), "public, immutable".to_owned()));
    }
    Answer::Raw(RawAnswer { code, content_type: "application/json".into(), headers, body })
}

fn bearer_token() -> Value {
    json!({"BearerToken": {
        "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
    }})
}

/// A document as text. It is made of texts and values, which always have an encoding.
#[cfg(test)]
fn text(document: &impl Serialize) -> Bytes {
    serde_json::to_vec(document).unwrap_or_default().into()
}

fn hash(bytes: &[u8]) -> String {
    hex::encode_upper(Sha512::digest(bytes))
}

/// The type of a value that a schema refers to, for those who build operations.
fn reference(dialect: Dialect, name: &str) -> Value {
    json!({"$ref": format!("{}{name}", dialect.prefix())})
}

#[cfg(test)]
mod tests;
