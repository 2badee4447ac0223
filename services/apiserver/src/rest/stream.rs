//! Watches over HTTP: one JSON document a line.

use actix_web::{HttpResponse, HttpResponseBuilder};
use async_stream::stream;
use bytes::Bytes;
use serde_json::{Value, json};
use trireme_machinery::schema::zero;
use trireme_machinery::status::Status;

use super::accept::{Format, Shape};
use super::encode::{self, Style};
use crate::cache::Change;
use crate::pipeline::{Context, WatchItem, Watcher};

/// Lines that are ready at once are sent together, up to this.
const CHUNK: usize = 64 << 10;

/// Answers with the events of a watch, as long as it stands.
pub(super) fn respond(
    mut response: HttpResponseBuilder,
    mut watcher: Watcher,
    style: Style,
    context: Context,
) -> HttpResponse {
    let events = stream! {
        // The request's context lives as long as its stream.
        let _context = context;
        let mut first = true;
        while let Some(item) = watcher.next().await {
            let mut chunk = Vec::new();
            line(&watcher, &item, &style, &mut first, &mut chunk);
            while chunk.len() < CHUNK {
                let Some(item) = watcher.ready() else { break };
                line(&watcher, &item, &style, &mut first, &mut chunk);
            }
            yield Ok::<Bytes, std::io::Error>(chunk.into());
        }
    };
    response.content_type(Format::Json.media_type()).streaming(events)
}

fn line(watcher: &Watcher, item: &WatchItem, style: &Style, first: &mut bool, out: &mut Vec<u8>) {
    let (name, object) = match item {
        WatchItem::Event(change, stored) => {
            let name = match change {
                Change::Added => "ADDED",
                Change::Modified => "MODIFIED",
                Change::Deleted => "DELETED",
            };
            let object = encode::event_object(&watcher.kind, stored, style, *first);
            *first = false;
            (name, object)
        }
        WatchItem::Bookmark(revision, initial) => ("BOOKMARK", bookmark(watcher, *revision, *initial, style)),
        WatchItem::Error(status) => ("ERROR", error(status)),
        WatchItem::Progress(_) => return,
    };
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(&object);
    out.extend_from_slice(b"}\n");
}

fn bookmark(watcher: &Watcher, revision: i64, initial: bool, style: &Style) -> Vec<u8> {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let kind = &watcher.kind;
    let object: Value = match style.form.shape {
        Shape::Metadata(version) => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
        }
        Shape::Table(version) => json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": {"resourceVersion": revision.to_string()},
            "columnDefinitions": null,
            "rows": [],
        }),
        Shape::Object => {
            let mut object = zero::zero(&kind.schema, kind.ty);
            object["kind"] = json!(kind.kind);
            object["apiVersion"] = json!(kind.api_version());
            object["metadata"] = metadata;
            object
        }
    };
    object.to_string().into_bytes()
}

fn error(status: &Status) -> Vec<u8> {
    serde_json::to_vec(status).unwrap_or_default()
}
