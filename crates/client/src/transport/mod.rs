//! The two ways to an API server behind one trait: the gRPC door of ours, and Kubernetes' REST API of any.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use trireme_telemetry::{Cause, TraceParent};

use crate::context::Fence;
use crate::error::Error;
use crate::object::ApiResource;

pub(crate) mod grpc;
pub(crate) mod grpc_watch;
mod json_lines;
pub(crate) mod rest;

use grpc_watch::Selection;

/// One request in the terms of Kubernetes.
#[derive(Debug, Clone)]
pub struct Request {
    /// get, list, watch, create, update, patch, delete or deletecollection.
    pub verb: &'static str,
    /// Where the object lies.
    pub resource: ApiResource,
    /// Empty: all namespaces, or cluster-scoped.
    pub namespace: String,
    /// Empty for what concerns a collection.
    pub name: String,
    /// As in "status"; empty for the object itself.
    pub subresource: String,
    /// The verb's options; `Value::Null` for none.
    pub options: Value,
    /// What is sent.
    pub body: Bytes,
    /// Type of the body, of a patch its kind.
    pub content_type: &'static str,
    /// The claim under which it is written.
    pub fence: Option<Fence>,
    /// Only metadata is wanted: a transport may then ask for less, or not.
    pub metadata_only: bool,
}

impl Request {
    /// A request without options and body.
    #[must_use]
    pub fn new(verb: &'static str, resource: &ApiResource, namespace: &str, name: &str) -> Self {
        Self {
            verb,
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            options: Value::Null,
            body: Bytes::new(),
            content_type: "application/json",
            fence: None,
            metadata_only: false,
        }
    }

    /// It changes something.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

/// The answer to a request.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The object, as JSON.
    pub body: Bytes,
    /// The revision the answer stands for; 0 when the transport does not say.
    pub revision: i64,
    /// What the server warns about.
    pub warnings: Vec<String>,
    /// What caused the object's version.
    pub cause: Cause,
}

/// One object of a list.
#[derive(Debug, Clone)]
pub struct Item {
    /// The object, as JSON.
    pub object: Bytes,
    /// What caused its version.
    pub cause: Cause,
}

/// A list, or one page of it.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The objects.
    pub items: Vec<Item>,
    /// The revision at which the list was true.
    pub revision: i64,
    /// Where to go on; empty at the end.
    pub continue_token: String,
    /// How many follow.
    pub remaining: i64,
}

/// What a watch says.
#[derive(Debug, Clone)]
pub enum RawEvent {
    /// An object matches the selection now.
    Added(RawObject),
    /// An object that matched changed.
    Modified(RawObject),
    /// An object does not exist or match any more; its last state.
    Deleted(RawObject),
    /// Every event up to this revision was sent.
    Bookmark(i64),
    /// The same, in answer to a request for progress, linearizable as of that request.
    Progress(i64),
}

/// An object in a watch event.
#[derive(Debug, Clone)]
pub struct RawObject {
    /// The object, as JSON.
    pub object: Bytes,
    /// Revision of the event; 0: take the object's.
    pub revision: i64,
    /// What caused it.
    pub cause: Cause,
}

/// One open selection.
#[derive(Debug)]
pub struct WatchStream {
    /// Events in the order of revisions; after an error nothing follows.
    pub(crate) events: mpsc::Receiver<Result<RawEvent, Error>>,
    /// Asks for a `Progress` event; `None`: the transport has none.
    pub(crate) progress: Option<Selection>,
    /// Ends the selection when the stream is dropped.
    pub(crate) _guard: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl WatchStream {
    /// The next event. `None`: the server ended the watch in order.
    pub async fn next(&mut self) -> Option<Result<RawEvent, Error>> {
        self.events.recv().await
    }

    /// Asks for progress; false: this transport cannot, or not now.
    #[must_use]
    pub fn ask_progress(&self) -> bool {
        self.progress.as_ref().is_some_and(Selection::ask_progress)
    }
}

pub(crate) type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A way to an API server.
pub(crate) trait Transport: Send + Sync + std::fmt::Debug {
    /// One request, one answer.
    fn call<'a>(&'a self, request: &'a Request, trace: Option<TraceParent>) -> Reply<'a, Answer>;
    /// A list (or a page of one, when the options limit it).
    fn list<'a>(&'a self, request: &'a Request, trace: Option<TraceParent>) -> Reply<'a, Listed>;
    /// Opens a selection.
    fn watch<'a>(&'a self, request: &'a Request) -> Reply<'a, WatchStream>;
    /// Writes can be fenced and causes are kept: it is our API server's gRPC door.
    fn fences(&self) -> bool;
}
