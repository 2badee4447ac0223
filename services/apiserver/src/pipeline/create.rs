//! Create.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::status::{Reason, Status};
use trireme_machinery::{meta, names};

use super::engine::{Engine, Target};
use super::mutation::{self, Admit};
use super::options::WriteOptions;
use super::persist::{Committed, Write, fill_system_fields};
use super::{Companion, Context, ObjectBody, ownership};
use crate::admission::Operation;
use crate::auth::Attributes;

/// How often a generated name, or the place of a companion, is chosen anew.
const TRIES: usize = 8;

impl Engine {
    /// Creates a decoded and defaulted object.
    pub(crate) async fn create_object(
        &self,
        context: &Context,
        target: &Target,
        object: Value,
        options: &WriteOptions,
        admit: Admit,
    ) -> Result<ObjectBody, Status> {
        let mut refusal = None;
        for _ in 0..TRIES {
            match self.try_create(context, target, object.clone(), options, admit).await? {
                Ok(created) => return Ok(created),
                Err(again) => refusal = Some(again),
            }
        }
        Err(refusal.unwrap_or_else(|| Status::internal("no try was made")))
    }

    /// One try. The inner error is of a kind that another try may not meet.
    async fn try_create(
        &self,
        context: &Context,
        target: &Target,
        mut object: Value,
        options: &WriteOptions,
        admit: Admit,
    ) -> Result<Result<ObjectBody, Status>, Status> {
        let kind = &target.kind;
        mutation::match_namespace(&mut object, &target.namespace)?;
        wipe_system_fields(&mut object);
        let admission = mutation::Admission {
            engine: self,
            context,
            kind,
            operation: Operation::Create,
            subresource: "",
            namespace: &target.namespace,
            name: &target.name,
            dry_run: options.dry_run,
            admit,
        };
        if admit == Admit::Yes || context.internal {
            ownership::track(context, kind, "", None, &mut object, options);
        }
        admission.mutate(&mut object, None).await?;
        mutation::dedup_owners(context, &mut object, true);
        mutation::match_namespace(&mut object, &target.namespace)?;

        let generated = meta::name(&object).is_empty() && !meta::generate_name(&object).is_empty();
        if generated {
            let name = names::generate(meta::generate_name(&object));
            meta::set_name(&mut object, &name);
        }
        wipe_system_fields(&mut object);
        fill_system_fields(&mut object, context);

        let companions = self.companions_of_create(context, target, &mut object, options).await?;
        mutation::with_kind_context(context, |hooks| kind.prepare_create(&mut object, hooks));
        let errors = mutation::with_kind_context(context, |hooks| kind.validate_create(&object, hooks));
        if !errors.is_empty() {
            return Err(kind.invalid(meta::name(&object), errors));
        }
        for warning in kind.hooks.warnings(&object, None) {
            context.warn(warning);
        }
        if admit == Admit::Yes {
            self.may_create(context)?;
        }
        admission.validate(&object, None).await?;

        kind.settle_stored(&mut object);
        let name = meta::name(&object).to_owned();
        let key = self.key(kind, &target.namespace, &name);
        let exists = || {
            if generated {
                Status::generate_name_conflict(&target.resource(), &name, 1)
            } else {
                Status::already_exists(&target.resource(), &name)
            }
        };
        if options.dry_run {
            let taken = self.cache.get(&kind.storage, &key).is_some();
            return if taken { Err(exists()) } else { Ok(Ok(ObjectBody::Value(object))) };
        }
        // Only what is written must not have one, and what is no number counts as none.
        if meta::revision(&object) != 0 {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::failure(500, Reason::Unknown, why));
        }
        let stored_kind = self.codec(kind)?.kind.clone();
        let to_store = mutation::to_stored(kind, &stored_kind, object);
        let write = Write { kind: &stored_kind, key: &key, old: None, new: Some(&to_store), companions };
        match self.commit(context, write).await? {
            Committed::Done(stored) => Ok(Ok(mutation::answer(kind, stored))),
            Committed::Moved(_) if generated => Ok(Err(exists())),
            Committed::Moved(_) => Err(exists()),
            Committed::CompanionTaken(key) => {
                let why = format!("{key} was taken at the same time; please try again");
                Ok(Err(Status::conflict(&target.resource(), &name, why)))
            }
        }
    }

    /// Whether the caller may create what the request updates. A create has been judged as such at the door.
    fn may_create(&self, context: &Context) -> Result<(), Status> {
        if context.internal || !matches!(context.info.verb.as_str(), "update" | "patch") {
            return Ok(());
        }
        let attributes = Attributes { verb: "create", ..Attributes::of(&context.info, &[]) };
        self.parts()?.authorizer.require(&context.user, &attributes)
    }

    async fn companions_of_create(
        &self,
        context: &Context,
        target: &Target,
        object: &mut Value,
        options: &WriteOptions,
    ) -> Result<Vec<Companion>, Status> {
        match self.companions_for(&target.kind)? {
            Some(companions) => companions.create(context, object, options.dry_run).await,
            None => Ok(Vec::new()),
        }
    }

    /// The companions of a kind, if it has any.
    pub(crate) fn companions_for(
        &self,
        kind: &trireme_kinds::Kind,
    ) -> Result<Option<Arc<dyn super::Companions>>, Status> {
        let key = (kind.group.clone(), kind.plural.clone());
        Ok(self.parts()?.companions.get(&key).cloned())
    }
}

/// Takes away what only the API server says about an object.
fn wipe_system_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(key);
        }
    }
}
