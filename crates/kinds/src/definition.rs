//! How a built-in kind is declared: one expression that reads like the facts it states.

use std::sync::Arc;

use trireme_machinery::gvk::{GroupVersionKind, api_version};
use trireme_machinery::schema::Schema;

use crate::declared::{Check, CheckUpdate, Declared};
use crate::disabled::Disabled;
use crate::hooks::{Hooks, NoHooks};
use crate::rules::{NameRule, Propagation, Rules};
use crate::table::TableColumn;
use crate::{Kind, ScalePaths, Subresource};

/// The verbs most resources are served with.
const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of a `status` or `scale`.
const UPDATE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A kind before it is bound to its schema.
pub(crate) struct Definition {
    kind: Kind,
    type_name: String,
    /// The rules of a kind without [hooks](Definition::hooks).
    declared: Option<Declared>,
}

impl Definition {
    /// A namespaced kind that is stored and has all verbs.
    pub(crate) fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            type_name: type_name(group, version, kind),
            declared: Some(Declared::NOTHING),
            kind: Kind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                list_kind: format!("{kind}List"),
                plural: plural.to_owned(),
                singular: kind.to_lowercase(),
                short_names: Vec::new(),
                categories: Vec::new(),
                namespaced: true,
                verbs: owned(&ALL_VERBS),
                subresources: Vec::new(),
                scale: None,
                storage: plural.to_owned(),
                storage_version: api_version(group, version),
                rules: Rules { standard_finalizers: true, ..Rules::default() },
                schema: Arc::default(),
                ty: trireme_machinery::schema::TypeId(0),
                hooks: Arc::new(NoHooks),
            },
        }
    }

    /// A kind that lives outside namespaces.
    pub(crate) fn cluster(mut self) -> Self {
        self.kind.namespaced = false;
        self
    }

    /// What kubectl also calls it.
    pub(crate) fn short(mut self, names: &[&str]) -> Self {
        self.kind.short_names = owned(names);
        self
    }

    /// A category it is in.
    pub(crate) fn category(mut self, category: &str) -> Self {
        self.kind.categories.push(category.to_owned());
        self
    }

    /// `metadata.generation` counts changes of its spec.
    pub(crate) fn generation(mut self) -> Self {
        self.kind.rules.generation = true;
        self
    }

    /// Its status is changed through `status` only.
    pub(crate) fn status(mut self) -> Self {
        self.kind.rules.empties_status = true;
        self.kind.rules.keeps_status = true;
        let kind = GroupVersionKind::new("", "", &*self.kind.kind);
        self.subresource("status", kind, &UPDATE_VERBS)
    }

    /// New objects may bring a status.
    pub(crate) fn created_with_status(mut self) -> Self {
        self.kind.rules.empties_status = false;
        self
    }

    /// An update must name the resourceVersion it is based on.
    pub(crate) fn conditional_update(mut self) -> Self {
        self.kind.rules.unconditional_update = false;
        self
    }

    /// A PUT of an absent object creates it.
    pub(crate) fn create_on_update(mut self) -> Self {
        self.kind.rules.create_on_update = true;
        self
    }

    /// Dependents stay when it is deleted, unless a client says otherwise.
    pub(crate) fn orphans(mut self) -> Self {
        self.kind.rules.propagation = Propagation::Orphan;
        self
    }

    /// Its finalizers may be called anything.
    pub(crate) fn free_finalizers(mut self) -> Self {
        self.kind.rules.standard_finalizers = false;
        self
    }

    /// Which names it takes, if not DNS subdomains.
    pub(crate) fn names(mut self, rule: NameRule) -> Self {
        self.kind.rules.names = rule;
        self
    }

    /// It can be scaled, as the workloads of Kubernetes are.
    pub(crate) fn scale(mut self) -> Self {
        self.kind.scale = Some(ScalePaths {
            spec_replicas: "spec.replicas".to_owned(),
            status_replicas: "status.replicas".to_owned(),
            selector: Some("spec.selector".to_owned()),
        });
        self.subresource("scale", GroupVersionKind::new("autoscaling", "v1", "Scale"), &UPDATE_VERBS)
    }

    /// Serves a subresource that takes a kind of the same group.
    pub(crate) fn serves(self, name: &str, kind: &str, verbs: &[&str]) -> Self {
        self.subresource(name, GroupVersionKind::new("", "", kind), verbs)
    }

    /// Serves a subresource.
    pub(crate) fn subresource(mut self, name: &str, kind: GroupVersionKind, verbs: &[&str]) -> Self {
        self.kind.subresources.push(Subresource { name: name.to_owned(), kind, verbs: owned(verbs) });
        self.kind.subresources.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// It has these verbs only.
    pub(crate) fn only(mut self, verbs: &[&str]) -> Self {
        self.kind.verbs = owned(verbs);
        self
    }

    /// It is answered and never stored.
    pub(crate) fn not_stored(mut self) -> Self {
        self.kind.storage.clear();
        self
    }

    /// It is stored under another key than its plural name.
    pub(crate) fn stored_at(mut self, prefix: &str) -> Self {
        self.kind.storage = prefix.to_owned();
        self
    }

    /// It is stored in another version than its own.
    pub(crate) fn stored_as(mut self, api_version: &str) -> Self {
        self.kind.storage_version = api_version.to_owned();
        self
    }

    /// What `kubectl get` shows.
    pub(crate) fn table(self, columns: &'static [TableColumn]) -> Self {
        self.declare(|rules| rules.table = columns)
    }

    /// What is wrong with an object.
    pub(crate) fn check(self, check: Check) -> Self {
        self.declare(|rules| rules.check = Some(check))
    }

    /// What is wrong with an update, if that is not what is wrong with the new object.
    pub(crate) fn check_update(self, check: CheckUpdate) -> Self {
        self.declare(|rules| rules.check_update = Some(check))
    }

    fn declare(mut self, change: impl FnOnce(&mut Declared)) -> Self {
        change(self.declared.get_or_insert(Declared::NOTHING));
        self
    }

    /// Its rules, all of them: of a kind that has more than a table and checks.
    pub(crate) fn hooks(mut self, hooks: impl Hooks + 'static) -> Self {
        self.kind.hooks = Arc::new(hooks);
        self.declared = None;
        self
    }

    /// Binds it to its schema; `None` if the schema has no such type.
    pub(crate) fn bind(mut self, schema: &Arc<Schema>) -> Option<Kind> {
        self.kind.ty = schema.find(&self.type_name)?;
        self.kind.schema = schema.clone();
        if let Some(rules) = self.declared {
            self.kind.hooks = Arc::new(rules);
        }
        self.kind.rules.disabled = Disabled::find(schema, self.kind.ty);
        Some(self.kind)
    }
}

/// The name under which a type is published.
pub(crate) fn type_name(group: &str, version: &str, kind: &str) -> String {
    let short = group.split('.').next().unwrap_or_default();
    match short {
        "" => format!("io.k8s.api.core.{version}.{kind}"),
        "apiextensions" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}.{kind}"),
        "meta" => format!("io.k8s.apimachinery.pkg.apis.meta.{version}.{kind}"),
        group => format!("io.k8s.api.{group}.{version}.{kind}"),
    }
}

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}
