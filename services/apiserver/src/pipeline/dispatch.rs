//! From the verb to what does it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::status::Status;
use trireme_service::pages;

use super::delete::{self, Deleted};
use super::engine::{Engine, Target, method_not_allowed};
use super::mutation::{self, Admit};
use super::options::{self, DeleteOptions, ListOptions, WriteOptions};
use super::patch::Patch;
use super::update::{Change, Put, Updated, check_place};
use super::{
    Answer, Body, Context, ObjectAnswer, ObjectBody, Objects, RawAnswer, Reader, Request, Stored, decode, delete_body,
};

// === impl Engine ===

impl Engine {
    /// Does what the request asks for. The caller is known and may do it.
    pub(crate) async fn dispatch(&self, context: &Context, request: &Request) -> Result<Answer, Status> {
        let info = &request.info;
        let parts = self.parts()?;
        if !info.is_resource {
            return self.outside(request).await;
        }
        let target = self.target(info)?;
        let beside = !info.subresource.is_empty() && info.subresource != "status";
        if (beside || target.kind.storage.is_empty())
            && let Some(outcome) = parts.handler.handle(context, request).await
        {
            return outcome;
        }
        check_verb(&target.kind, request)?;
        if let Some(warning) = deprecation(&target.kind) {
            context.warn(warning);
        }
        match info.verb.as_str() {
            "get" => self.get(context, &target, request).await,
            "list" => {
                let options = ListOptions::read(request)?;
                Ok(Answer::List(Box::new(self.list_objects(context, &target, &options).await?)))
            }
            "watch" => {
                let options = ListOptions::read(request)?;
                Ok(Answer::Watch(Box::new(self.watch_objects(context, &target, &options).await?)))
            }
            "create" => self.create_answer(context, &target, request).await,
            "update" => self.update_answer(context, &target, request).await,
            "patch" => self.patch_answer(context, &target, request).await,
            "delete" => self.delete_answer(context, &target, request).await,
            "deletecollection" => {
                let list = ListOptions::read(request)?;
                let options = DeleteOptions::read(request, delete_body::read(request)?.as_ref())?;
                if let Some(warning) = delete::warning(&target.kind, &options) {
                    context.warn(warning);
                }
                let answer = self.delete_collection(context, &target, &list, &options, Admit::Yes).await?;
                Ok(Answer::List(Box::new(answer)))
            }
            _ => Err(method_not_allowed()),
        }
    }

    /// Answers a path outside of the API's objects.
    async fn outside(&self, request: &Request) -> Result<Answer, Status> {
        let path = request.info.path.as_str();
        if path == "/version" && request.info.verb != "get" {
            return Err(method_not_allowed());
        }
        let unmade: Vec<_> = self.parts()?.documents.iter().filter_map(|documents| documents.unmade(request)).collect();
        for unmade in unmade {
            let made = tokio::task::spawn_blocking(unmade).await;
            made.map_err(|error| Status::internal(format!("the document cannot be made: {error}")))?;
        }
        if let Some(answer) = self.parts()?.documents.iter().find_map(|documents| documents.handle(request)) {
            return Ok(answer);
        }
        let query = request.query_string();
        let page = pages::answer(&self.health, path, &query).await.ok_or_else(Status::unknown_resource)?;
        Ok(Answer::Raw(RawAnswer {
            code: page.status,
            content_type: page.content_type.to_owned(),
            headers: vec![("X-Content-Type-Options".to_owned(), "nosniff".to_owned())],
            body: Body::Full(page.body.into()),
        }))
    }

    async fn get(&self, context: &Context, target: &Target, request: &Request) -> Result<Answer, Status> {
        let revision = options::revision(request.param("resourceVersion").unwrap_or_default())?;
        let stored = self.get_object(context, target, revision).await?;
        Ok(object(200, &target.kind, mutation::answer(&target.kind, stored)))
    }

    async fn create_answer(&self, context: &Context, target: &Target, request: &Request) -> Result<Answer, Status> {
        let options = WriteOptions::read(request, "CreateOptions")?;
        let mut new = decode::object(context, &target.kind, request, options.validation)?;
        mutation::dedup_owners(context, &mut new, false);
        let created = self.create_object(context, target, new, &options, Admit::Yes).await?;
        Ok(object(201, &target.kind, created))
    }

    async fn update_answer(&self, context: &Context, target: &Target, request: &Request) -> Result<Answer, Status> {
        let options = WriteOptions::read(request, "UpdateOptions")?;
        let mut new = decode::object(context, &target.kind, request, options.validation)?;
        // Before anybody looks whether there is such an object.
        check_place(&mut new, target)?;
        mutation::dedup_owners(context, &mut new, false);
        let subresource = &request.info.subresource;
        let updated = self.update_object(context, target, subresource, &mut Put(new), &options, Admit::Yes).await?;
        Ok(object(if updated.created { 201 } else { 200 }, &target.kind, updated.object))
    }

    async fn patch_answer(&self, context: &Context, target: &Target, request: &Request) -> Result<Answer, Status> {
        let mut patch = Patch::read(context, &target.kind, request)?;
        let options = patch.options.clone();
        let subresource = &request.info.subresource;
        let updated = self.update_object(context, target, subresource, &mut patch, &options, Admit::Yes).await?;
        Ok(object(if updated.created { 201 } else { 200 }, &target.kind, updated.object))
    }

    async fn delete_answer(&self, context: &Context, target: &Target, request: &Request) -> Result<Answer, Status> {
        let options = DeleteOptions::read(request, delete_body::read(request)?.as_ref())?;
        if let Some(warning) = delete::warning(&target.kind, &options) {
            context.warn(warning);
        }
        let (deleted, gone) = self.delete_object(context, target, &options, Admit::Yes).await?;
        let code = if !gone && options.orphan_dependents == Some(false) { 202 } else { 200 };
        Ok(match deleted {
            Deleted::Object(body) => object(code, &target.kind, body),
            Deleted::Gone(status) => Answer::Status(status),
        })
    }
}

fn object(code: u16, kind: &Arc<Kind>, object: ObjectBody) -> Answer {
    Answer::Object(ObjectAnswer { code, kind: Some(kind.clone()), object })
}

/// Kinds that will not be served for ever.
fn deprecation(kind: &Kind) -> Option<&'static str> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// The verbs of the resource, or of its subresource.
fn check_verb(kind: &Kind, request: &Request) -> Result<(), Status> {
    let info = &request.info;
    let allowed = match kind.subresource(&info.subresource) {
        Some(subresource) => subresource.verbs.contains(&info.verb),
        None => kind.has_verb(&info.verb),
    };
    // A collection is created into and an object is changed, never the other way round.
    let fits = match info.verb.as_str() {
        "create" => info.name.is_empty() || !info.subresource.is_empty(),
        "update" | "patch" => !info.name.is_empty(),
        _ => true,
    };
    // Across namespaces one can only look around.
    let placed = !kind.namespaced || !info.namespace.is_empty() || matches!(&*info.verb, "get" | "list" | "watch");
    if allowed && fits && placed { Ok(()) } else { Err(method_not_allowed()) }
}

/// A change that a closure makes.
struct With<'c, 'k> {
    change: &'c mut (dyn for<'v> FnMut(&'v mut Value) -> Result<(), Status> + Send),
    kind: &'k Kind,
}

#[async_trait]
impl Change for With<'_, '_> {
    async fn apply(&mut self, old: Option<&Value>) -> Result<Value, Status> {
        let mut new = old.cloned().unwrap_or_default();
        (self.change)(&mut new)?;
        self.kind.default(&mut new);
        Ok(new)
    }
}

/// What the API server does in its own name, it owns.
fn own_options(context: &Context) -> WriteOptions {
    let field_manager = if context.internal { "kube-apiserver".to_owned() } else { String::new() };
    WriteOptions { field_manager, ..WriteOptions::default() }
}

#[async_trait]
impl Objects for Engine {
    async fn get(&self, kind: &Arc<Kind>, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let context = Context::internal("apiserver");
        self.get_object(&context, &place(kind, namespace, name), None).await
    }

    async fn list(&self, kind: &Arc<Kind>, namespace: &str) -> Result<Vec<Arc<Stored>>, Status> {
        let context = Context::internal("apiserver");
        Ok(self.list_objects(&context, &place(kind, namespace, ""), &ListOptions::default()).await?.items)
    }

    async fn create(
        &self,
        context: &Context,
        kind: &Arc<Kind>,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Stored>, Status> {
        let (mut object, _) = kind.decode(object, trireme_machinery::schema::decode::Strictness::Ignore)?;
        kind.default(&mut object);
        let target = place(kind, namespace, "");
        let created = self.create_object(context, &target, object, &own_options(context), Admit::No).await?;
        self.stored(kind, created)
    }

    async fn update(
        &self,
        context: &Context,
        kind: &Arc<Kind>,
        namespace: &str,
        name: &str,
        subresource: &str,
        change: &mut (dyn for<'v> FnMut(&'v mut Value) -> Result<(), Status> + Send),
    ) -> Result<Arc<Stored>, Status> {
        let mut change = With { change, kind };
        let target = place(kind, namespace, name);
        let options = own_options(context);
        let Updated { object, .. } =
            self.update_object(context, &target, subresource, &mut change, &options, Admit::No).await?;
        self.stored(kind, object)
    }

    async fn delete(
        &self,
        context: &Context,
        kind: &Arc<Kind>,
        namespace: &str,
        name: &str,
        options: &Value,
    ) -> Result<Value, Status> {
        let options = DeleteOptions::from_value(options)?;
        let (deleted, _) = self.delete_object(context, &place(kind, namespace, name), &options, Admit::No).await?;
        Ok(match deleted {
            Deleted::Object(body) => body.value(),
            Deleted::Gone(status) => serde_json::to_value(*status).unwrap_or_default(),
        })
    }

    fn reader(&self) -> &dyn Reader {
        &self.reader
    }
}

impl Engine {
    fn stored(&self, kind: &Arc<Kind>, body: ObjectBody) -> Result<Arc<Stored>, Status> {
        match body {
            ObjectBody::Stored(stored) => Ok(stored),
            ObjectBody::Value(value) => {
                let key =
                    self.key(kind, trireme_machinery::meta::namespace(&value), trireme_machinery::meta::name(&value));
                let revision = i64::try_from(trireme_machinery::meta::revision(&value)).unwrap_or(0);
                Ok(Arc::new(self.codec(kind)?.make(&key, value, revision, None)))
            }
        }
    }
}

fn place(kind: &Arc<Kind>, namespace: &str, name: &str) -> Target {
    Target { kind: kind.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
}
