//! A small API server in memory: enough of Kubernetes for what the client relies on, and ways to make trouble.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::status::{Status, cause};

/// What a request is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) options: Value,
    pub(crate) body: Value,
    pub(crate) fence: Option<(String, i64)>,
    pub(crate) cause: String,
    pub(crate) authorization: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Happening {
    pub(crate) kind: &'static str,
    pub(crate) revision: i64,
    pub(crate) resource: String,
    pub(crate) object: Value,
    pub(crate) cause: String,
}

#[derive(Debug, Default)]
struct State {
    revision: i64,
    compacted: i64,
    objects: BTreeMap<(String, String, String), (Value, String)>,
    history: Vec<Happening>,
    writes: usize,
    unanswered: usize,
    failing: Option<&'static str>,
    authorization: String,
    questions: usize,
}

/// Handle of the server; clones are the same server.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    pub(crate) changed: watch::Sender<i64>,
    /// Every connection of a watch ends when this moves.
    pub(crate) cut: watch::Sender<u64>,
    /// The resource whose watch events are held back.
    pub(crate) held: watch::Sender<Option<&'static str>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            changed: watch::Sender::new(0),
            cut: watch::Sender::new(0),
            held: watch::Sender::new(None),
        }
    }
}

impl Fake {
    pub(crate) fn revision(&self) -> i64 {
        self.state.lock().unwrap().revision
    }

    pub(crate) fn writes(&self) -> usize {
        self.state.lock().unwrap().writes
    }

    /// What the last request showed of itself.
    pub(crate) fn authorization(&self) -> String {
        self.state.lock().unwrap().authorization.clone()
    }

    /// How often somebody asked how far a watch has come.
    pub(crate) fn questions(&self) -> usize {
        self.state.lock().unwrap().questions
    }

    pub(crate) fn asked(&self) {
        self.state.lock().unwrap().questions += 1;
    }

    /// Holds the watch events of a resource back.
    pub(crate) fn hold(&self, resource: &'static str) {
        self.held.send_replace(Some(resource));
    }

    /// Lets all events go.
    pub(crate) fn release(&self) {
        self.held.send_replace(None);
    }

    /// Ends all watches.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|n| *n += 1);
    }

    /// Forgets what happened up to now.
    pub(crate) fn compact(&self) {
        let mut state = self.state.lock().unwrap();
        state.compacted = state.revision;
        state.history.clear();
    }

    /// The next writes happen but are not answered.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.state.lock().unwrap().unanswered = count;
    }

    /// Writes of what has a name that begins so fail, again and again.
    pub(crate) fn fail(&self, beginning: &'static str) {
        self.state.lock().unwrap().failing = Some(beginning);
    }

    /// What happened after a revision.
    pub(crate) fn since(&self, revision: i64, resource: &str) -> Result<(Vec<Happening>, i64), Status> {
        let state = self.state.lock().unwrap();
        if revision < state.compacted {
            return Err(Status::expired(format!("too old resource version: {revision} ({})", state.compacted)));
        }
        let new = state.history.iter().filter(|h| h.revision > revision && h.resource == resource).cloned().collect();
        Ok((new, state.revision))
    }

    /// Objects with their causes, and the revision.
    pub(crate) fn list(&self, resource: &str, namespace: &str) -> (Vec<(Value, String)>, i64) {
        let state = self.state.lock().unwrap();
        let all =
            state.objects.iter().filter(|((r, n, _), _)| r == resource && (namespace.is_empty() || n == namespace));
        (all.map(|(_, found)| found.clone()).collect(), state.revision)
    }

    pub(crate) fn put(&self, resource: &str, namespace: &str, name: &str, data: &str) {
        let body = json!({"metadata": {"name": name, "namespace": namespace}, "data": {"text": data}});
        let ask = |verb: &str| Ask {
            verb: verb.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            body: body.clone(),
            ..Ask::default()
        };
        if self.handle(ask("update")).is_err() {
            self.handle(ask("create")).unwrap();
        }
    }

    pub(crate) fn remove(&self, resource: &str, namespace: &str, name: &str) {
        let ask = Ask {
            verb: "delete".into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..Ask::default()
        };
        let _ = self.handle(ask);
    }

    /// One request, one answer with the revision it stands for.
    pub(crate) fn handle(&self, ask: Ask) -> Result<(Value, i64), Status> {
        let mut state = self.state.lock().unwrap();
        let result = state.handle(ask);
        let _ = self.changed.send_replace(state.revision);
        if state.unanswered > 0 && result.is_ok() {
            state.unanswered -= 1;
            return Err(Status::service_unavailable("the answer got lost"));
        }
        result
    }
}

fn group_resource(resource: &str) -> GroupResource {
    GroupResource { group: String::new(), resource: resource.to_owned() }
}

impl State {
    fn handle(&mut self, ask: Ask) -> Result<(Value, i64), Status> {
        let name = if ask.name.is_empty() {
            ask.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("").to_owned()
        } else {
            ask.name.clone()
        };
        let key = (ask.resource.clone(), ask.namespace.clone(), name.clone());
        let group = group_resource(&ask.resource);
        self.authorization.clone_from(&ask.authorization);
        if ask.subresource == "token" {
            self.objects.get(&key).ok_or_else(|| Status::not_found(&group, &name))?;
            return Ok((json!({"kind": "TokenRequest", "status": {"token": format!("token-of-{name}")}}), 0));
        }
        if ask.verb == "get" {
            let found = self.objects.get(&key).ok_or_else(|| Status::not_found(&group, &name))?;
            return Ok((found.0.clone(), self.revision));
        }
        if let Some((claim, epoch)) = &ask.fence {
            let lease = self.objects.get(&("leases".into(), "kube-system".into(), claim.clone()));
            if lease.map_or(0, |l| revision_of(&l.0)) != *epoch {
                let status = Status::conflict(&group, &name, "the claim moved");
                return Err(status.with_cause(cause::CLAIM_LOST, "the claim moved", ""));
            }
        }
        if self.failing.is_some_and(|beginning| name.starts_with(beginning)) {
            return Err(Status::internal("it fails"));
        }
        let old = self.objects.get(&key).map(|found| found.0.clone());
        let (kind, mut object) = match ask.verb.as_str() {
            "create" if old.is_some() => return Err(Status::already_exists(&group, &name)),
            "create" => {
                let mut object = ask.body.clone();
                object["metadata"]["uid"] = json!(format!("uid-{}", self.revision + 1));
                object["metadata"]["namespace"] = json!(ask.namespace);
                ("ADDED", object)
            }
            "update" => {
                let old = old.ok_or_else(|| Status::not_found(&group, &name))?;
                let wanted = ask.body.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                if wanted.is_some_and(|w| Some(w) != old.pointer("/metadata/resourceVersion").and_then(Value::as_str)) {
                    return Err(Status::conflict(&group, &name, "the object has been modified"));
                }
                let mut object = ask.body.clone();
                object["metadata"]["uid"] = old["metadata"]["uid"].clone();
                ("MODIFIED", object)
            }
            "patch" => {
                let mut object = old.ok_or_else(|| Status::not_found(&group, &name))?;
                merge(&mut object, &ask.body);
                ("MODIFIED", object)
            }
            "delete" => {
                let old = old.ok_or_else(|| Status::not_found(&group, &name))?;
                let uid = ask.options.pointer("/preconditions/uid");
                if uid.is_some_and(|u| *u != old["metadata"]["uid"]) {
                    return Err(Status::conflict(&group, &name, "the UID in the precondition is another"));
                }
                ("DELETED", old)
            }
            other => return Err(Status::bad_request(format!("verb {other}"))),
        };
        self.revision += 1;
        self.writes += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        if kind == "DELETED" {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, (object.clone(), ask.cause.clone()));
        }
        self.history.push(Happening {
            kind,
            revision: self.revision,
            resource: ask.resource,
            object: object.clone(),
            cause: ask.cause,
        });
        Ok((object, self.revision))
    }
}

pub(crate) fn revision_of(object: &Value) -> i64 {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).and_then(|r| r.parse().ok()).unwrap_or(0)
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}
