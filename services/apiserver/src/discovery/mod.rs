//! What is served: `/api`, `/apis`, the resources of every group and version, and the same in one document.
//!
//! Documents are made once from a [`Registry`] and kept, each with its hash as `ETag`. A new set of kinds (a
//! CustomResourceDefinition) makes new ones.

mod aggregated;
mod groups;
mod legacy;
mod paths;
mod version;

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};
use trireme_kinds::{Kind, Registry};

pub use groups::{GROUPS, preferred};
pub use paths::all as paths;
pub use version::version;

use crate::pipeline::{Answer, Body, Documents, RawAnswer, Request};

/// All discovery documents of a set of kinds.
pub struct Discovery {
    documents: HashMap<String, Document>,
    api: Document,
    apis: Document,
}

/// A document, encoded once.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its bytes.
    pub body: Bytes,
    /// Its hash, quoted.
    pub etag: String,
}

impl Document {
    /// Encodes a document.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        let body = Bytes::from(value.to_string());
        let etag = format!("\"{}\"", hex::encode_upper(Sha512::digest(&body)));
        Self { body, etag }
    }
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Discovery {
    /// The documents of `registry`; `address` is where clients outside of every named range reach the server.
    #[must_use]
    pub fn new(registry: &Registry, address: &str) -> Self {
        let mut documents = HashMap::new();
        let mut put = |path: String, value: &Value| _ = documents.insert(path, Document::new(value));
        put("/api".into(), &legacy::versions(address));
        put("/apis".into(), &legacy::groups(registry));
        put("/version".into(), &version());
        put("/".into(), &json!({ "paths": paths(registry) }));
        for group in groups::served(registry) {
            if !group.name.is_empty() {
                put(format!("/apis/{}", group.name), &legacy::group(&group, true));
            }
            for version in &group.versions {
                let path = if group.name.is_empty() {
                    format!("/api/{version}")
                } else {
                    format!("/apis/{}/{version}", group.name)
                };
                put(path, &legacy::resources(registry, &group.name, version));
            }
        }
        Self {
            documents,
            api: Document::new(&aggregated::list(registry, true)),
            apis: Document::new(&aggregated::list(registry, false)),
        }
    }

    fn answer(&self, request: &Request) -> Option<Answer> {
        let path = match request.info.path.as_str() {
            "/" => "/",
            path => path.trim_end_matches('/'),
        };
        let document = self.documents.get(path)?;
        let aggregated = match path {
            "/api" => Some(&self.api),
            "/apis" => Some(&self.apis),
            _ => None,
        };
        let none_match = request.if_none_match.as_deref();
        match aggregated {
            Some(list) if wants_aggregated(&request.accept) => Some(answer(list, AGGREGATED, none_match, true)),
            Some(_) => Some(answer(document, "application/json", none_match, true)),
            None => Some(answer(document, "application/json", none_match, false)),
        }
    }
}

impl Documents for Discovery {
    fn handle(&self, request: &Request) -> Option<Answer> {
        self.answer(request)
    }
}

/// Whether the first acceptable type is the aggregated form.
fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').map(str::trim).any(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let json = matches!(parts.next(), Some("application/json"));
        let (mut group, mut version, mut kind) = (false, false, false);
        for part in parts {
            match part {
                "g=apidiscovery.k8s.io" => group = true,
                "v=v2" => version = true,
                "as=APIGroupDiscoveryList" => kind = true,
                _ => {}
            }
        }
        json && group && version && kind
    })
}

fn answer(document: &Document, content_type: &str, none_match: Option<&str>, tagged: bool) -> Answer {
    let mut headers = Vec::new();
    if tagged {
        headers.push(("Vary".to_owned(), "Accept".to_owned()));
        if content_type == AGGREGATED {
            headers.push(("ETag".to_owned(), document.etag.clone()));
            headers.push(("Cache-Control".to_owned(), "public".to_owned()));
        }
    }
    let unchanged = content_type == AGGREGATED && none_match == Some(document.etag.as_str());
    let (code, body) = if unchanged { (304, Bytes::new()) } else { (200, document.body.clone()) };
    Answer::Raw(RawAnswer { code, content_type: content_type.to_owned(), headers, body: Body::Full(body) })
}

/// Kinds that upstream still stores in an older version, whose hash clients know. We store them as v1, which upstream reads.
const STORED_AS: [(&str, &str, &str); 5] = [
    ("apiextensions.k8s.io", "customresourcedefinitions", "v1beta1"),
    ("certificates.k8s.io", "clustertrustbundles", "v1beta1"),
    ("certificates.k8s.io", "podcertificaterequests", "v1beta1"),
    ("resource.k8s.io", "devicetaintrules", "v1beta2"),
    ("storagemigration.k8s.io", "storageversionmigrations", "v1beta1"),
];

/// The hash by which clients see that objects of a kind are stored in the same version.
fn storage_version_hash(kind: &Kind) -> String {
    let (group, version) = trireme_machinery::gvk::split_api_version(&kind.storage_version);
    let stored = STORED_AS.iter().find(|(g, plural, _)| *g == group && *plural == kind.plural);
    let version = stored.map_or(version, |(_, _, version)| *version);
    let digest = Sha256::digest(format!("{group}/{version}/{}", kind.kind));
    STANDARD.encode(&digest[..8])
}

#[cfg(test)]
mod tests;
