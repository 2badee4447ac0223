//! OpenAPI: `/openapi/v3` (an index and a document for each group and version) and `/openapi/v2` (all in one).
//!
//! Documents are made from the kinds' schemas when they are asked for; only their hashes are kept, so that a client which
//! caches by hash asks once, and an idle server holds no documents.
//!
//! | module | concern |
//! |---|---|
//! | [`schemas`] | types as schemas, with list types, merge keys, defaults and descriptions |
//! | [`paths`] | resources as paths and operations |
//! | [`names`] | operation ids, tags, paths of documents |

mod names;
mod paths;
mod schemas;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};
use trireme_kinds::Registry;
use trireme_machinery::status::Status;

use crate::discovery::GROUPS;
use crate::pipeline::{Answer, Body, Documents, RawAnswer, Request};
use schemas::{Dialect, Schemas};

const V2_TYPES: [&str; 1] = ["application/json"];
const PREFIX: &str = "/openapi/v3";

/// Answers `/openapi/…`.
pub struct OpenApi {
    registry: Arc<Registry>,
    index: OnceLock<Index>,
    v2_hash: OnceLock<String>,
}

struct Index {
    body: Bytes,
    etag: String,
    hashes: BTreeMap<String, String>,
}

impl OpenApi {
    /// The documents of these kinds.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        Self { registry, index: OnceLock::new(), v2_hash: OnceLock::new() }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut listed = Map::new();
            let mut hashes = BTreeMap::new();
            for (group, version) in self.group_versions() {
                let key = names::document_key(&group, &version);
                let hash = hash(self.document(&group, &version).as_bytes());
                let url = format!("{PREFIX}/{key}?hash={hash}");
                listed.insert(key.clone(), json!({"serverRelativeURL": url}));
                hashes.insert(key, hash);
            }
            let body = Bytes::from(json!({ "paths": listed }).to_string());
            let etag = format!("\"{}\"", hash(&body));
            Index { body, etag, hashes }
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

    /// The document of one group and version.
    fn document(&self, group: &str, version: &str) -> String {
        let mut schemas = Schemas::new(&self.registry, Dialect::V3);
        let paths = paths::of(&self.registry, group, version, &mut schemas);
        json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.37"},
            "paths": paths,
            "components": {
                "schemas": schemas.finish(),
                "securitySchemes": {"BearerToken": {
                    "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
                }},
            },
        })
        .to_string()
    }

    /// Everything in the form of Swagger 2.0.
    fn swagger(&self) -> String {
        let mut schemas = Schemas::new(&self.registry, Dialect::V2);
        let mut all = Map::new();
        for (group, version) in self.group_versions() {
            all.extend(paths::of(&self.registry, &group, &version, &mut schemas));
        }
        json!({
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1.37.2"},
            "paths": all,
            "definitions": schemas.finish(),
            "securityDefinitions": {"BearerToken": {
                "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
            }},
            "security": [{"BearerToken": []}],
        })
        .to_string()
    }

    fn v3(&self, key: &str, request: &Request) -> Option<Answer> {
        let index = self.index();
        let known = index.hashes.get(key)?;
        let etag = format!("\"{known}\"");
        if request.if_none_match.as_deref() == Some(&etag) {
            return Some(document(304, Bytes::new(), etag, false));
        }
        let asked = request.param("hash");
        if asked.is_some_and(|asked| asked != known) {
            let location = format!("{PREFIX}/{key}?hash={known}");
            let headers = vec![("Location".to_owned(), location)];
            let body = Body::Full(Bytes::new());
            return Some(Answer::Raw(RawAnswer { code: 301, content_type: "application/json".into(), headers, body }));
        }
        let (group, version) = names::group_version(key)?;
        Some(document(200, self.document(&group, &version).into(), etag, asked.is_some()))
    }

    fn v2(&self, request: &Request) -> Answer {
        let text = self.v2_hash.get().is_none().then(|| self.swagger());
        let known = self.v2_hash.get_or_init(|| hash(text.as_deref().unwrap_or_default().as_bytes()));
        let etag = format!("\"{known}\"");
        if request.if_none_match.as_deref() == Some(&etag) {
            return document(304, Bytes::new(), etag, false);
        }
        document(200, text.unwrap_or_else(|| self.swagger()).into(), etag, false)
    }
}

impl Documents for OpenApi {
    fn handle(&self, request: &Request) -> Option<Answer> {
        let path = request.info.path.as_str();
        if path == "/openapi/v2" {
            return Some(if accepts_json(&request.accept) { self.v2(request) } else { not_acceptable() });
        }
        let rest = path.strip_prefix(PREFIX)?;
        if rest.is_empty() || rest == "/" {
            let index = self.index();
            if request.if_none_match.as_deref() == Some(index.etag.as_str()) {
                return Some(document(304, Bytes::new(), index.etag.clone(), false));
            }
            return Some(document(200, index.body.clone(), index.etag.clone(), false));
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

fn document(code: u16, body: Bytes, etag: String, immutable: bool) -> Answer {
    let mut headers = vec![("ETag".to_owned(), etag), ("Vary".to_owned(), "Accept-Encoding, Accept".to_owned())];
    if immutable {
        headers.push(("Cache-Control".to_owned(), "public, immutable".to_owned()));
    }
    Answer::Raw(RawAnswer { code, content_type: "application/json".into(), headers, body: Body::Full(body) })
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
