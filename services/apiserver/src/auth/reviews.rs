//! The questions of [`super`] as API objects: SubjectAccessReview and its kin, TokenReview, SelfSubjectReview.
//!
//! A review is created and answered in one request; nothing is stored.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use trireme_kinds::Registry;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;
use trireme_machinery::time;

use super::attributes::{Attributes, FieldEquals, Verdict};
use super::authenticator::Authenticator;
use super::authorizer::Authorizer;
use super::review_selectors;
use super::user::UserInfo;
use crate::pipeline::{Context, Text};

/// Answers reviews.
#[derive(Clone)]
pub struct Reviews {
    authenticator: Authenticator,
    authorizer: Authorizer,
}

impl Reviews {
    /// Reviews by these two.
    #[must_use]
    pub fn new(authenticator: Authenticator, authorizer: Authorizer) -> Self {
        Self { authenticator, authorizer }
    }

    /// Answers the review of this kind; `None` if it is not one.
    #[must_use]
    pub fn answer(
        &self,
        context: &Context,
        kind: &str,
        namespace: &str,
        review: Value,
    ) -> Option<Result<Value, Status>> {
        Some(match kind {
            "SubjectAccessReview" => self.subject(review, &Path::new("metadata"), |_| ErrorList::new()),
            "LocalSubjectAccessReview" => self.local(namespace, review),
            "SelfSubjectAccessReview" => self.own_access(context, review),
            "SelfSubjectRulesReview" => self.own_rules(context, &review),
            "SelfSubjectReview" => Ok(own_identity(context)),
            "TokenReview" => self.token(review),
            _ => return None,
        })
    }

    fn subject(&self, mut review: Value, meta: &Path, more: impl Fn(&Value) -> ErrorList) -> Result<Value, Status> {
        let spec = &review["spec"];
        let mut errors = one_question(spec);
        let user = user_of(spec);
        if user.name.is_empty() && user.groups.is_empty() {
            let path = Path::new("spec").child("user");
            errors.push(field::invalid(&path, &user.name, "at least one of user or group must be specified"));
        }
        errors.extend(review_selectors::validate(&spec["resourceAttributes"]));
        errors.extend(more(&review));
        empty_metadata(&review, meta, &mut errors);
        refuse(errors)?;
        review["status"] = self.status(&user, spec);
        Ok(review)
    }

    fn local(&self, namespace: &str, review: Value) -> Result<Value, Status> {
        self.subject(review, &Path::new("metadata"), |review| {
            let mut errors = ErrorList::new();
            let spec = &review["spec"];
            let asked = spec.pointer("/resourceAttributes/namespace").and_then(Value::as_str).unwrap_or_default();
            if !spec["resourceAttributes"].is_null() && asked != namespace {
                let path = Path::new("spec.resourceAttributes.namespace");
                errors.push(field::invalid(&path, asked, "must match metadata.namespace"));
            }
            if !spec["nonResourceAttributes"].is_null() {
                let path = Path::new("spec.nonResourceAttributes");
                errors.push(field::invalid(
                    &path,
                    &go_form(&spec["nonResourceAttributes"]),
                    "disallowed on this kind of request",
                ));
            }
            errors
        })
    }

    fn own_access(&self, context: &Context, mut review: Value) -> Result<Value, Status> {
        let mut errors = one_question(&review["spec"]);
        errors.extend(review_selectors::validate(&review["spec"]["resourceAttributes"]));
        empty_metadata(&review, &Path::new("metadata"), &mut errors);
        refuse(errors)?;
        review["status"] = self.status(&context.user, &review["spec"]);
        Ok(review)
    }

    fn status(&self, user: &UserInfo, spec: &Value) -> Value {
        let (selectors, unread) = review_selectors::read(&spec["resourceAttributes"]);
        let decision = self.authorizer.authorize(user, &question(spec, &selectors));
        let mut status = Map::new();
        status.insert("allowed".into(), json!(decision.allowed()));
        if decision.verdict == Verdict::Deny {
            status.insert("denied".into(), json!(true));
        }
        if !decision.reason.is_empty() {
            status.insert("reason".into(), json!(decision.reason));
        }
        if let Some(unread) = unread {
            status.insert("evaluationError".into(), json!(unread));
        }
        Value::Object(status)
    }

    fn own_rules(&self, context: &Context, review: &Value) -> Result<Value, Status> {
        let namespace = review.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (mut resources, mut urls) = (Vec::new(), Vec::new());
        let (rules, mut errors) = self.authorizer.rbac().rules_for(&context.user, namespace);
        for rule in &rules {
            let value = serde_json::to_value(rule).unwrap_or_default();
            let only = |fields: &[&str]| {
                let kept = fields.iter().filter_map(|field| Some(((*field).to_owned(), value.get(*field)?.clone())));
                Value::Object(kept.collect())
            };
            if !rule.resources.is_empty() {
                resources.push(only(&["verbs", "apiGroups", "resources", "resourceNames"]));
            }
            if !rule.non_resource_urls.is_empty() {
                urls.push(only(&["verbs", "nonResourceURLs"]));
            }
        }
        let is_node = context.user.node_name().is_some();
        if is_node {
            errors.insert(0, "node authorizer does not support user rule resolution".to_owned());
        }
        let mut status = json!({"resourceRules": resources, "nonResourceRules": urls, "incomplete": is_node});
        if !errors.is_empty() {
            let text = if errors.len() == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) };
            status["evaluationError"] = json!(text);
        }
        Ok(json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "metadata": {},
            "spec": {},
            "status": status,
        }))
    }

    fn token(&self, mut review: Value) -> Result<Value, Status> {
        let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences: Vec<String> = strings(&review["spec"]["audiences"]);
        review["status"] = match self.authenticator.token(token, &audiences) {
            Ok(proven) => {
                let mut user = proven.user;
                user.ensure_group(super::user::AUTHENTICATED);
                let mut status = json!({"authenticated": true, "user": user});
                if !proven.audiences.is_empty() {
                    status["audiences"] = json!(proven.audiences);
                }
                status
            }
            Err(why) => json!({"user": {}, "error": why}),
        };
        Ok(review)
    }
}

fn own_identity(context: &Context) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {"creationTimestamp": time::format(context.now)},
        "status": {"userInfo": context.user},
    })
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn user_of(spec: &Value) -> UserInfo {
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let extra: BTreeMap<String, Vec<String>> =
        spec["extra"].as_object().into_iter().flatten().map(|(k, v)| (k.to_ascii_lowercase(), strings(v))).collect();
    UserInfo { name: text("user"), uid: text("uid"), groups: strings(&spec["groups"]), extra }
}

fn question<'a>(spec: &'a Value, selectors: &'a [FieldEquals]) -> Attributes<'a> {
    let resource = &spec["resourceAttributes"];
    if resource.is_null() {
        let text = |field: &str| spec["nonResourceAttributes"][field].as_str().unwrap_or_default();
        return Attributes::path(text("verb"), text("path"));
    }
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    Attributes {
        verb: text("verb"),
        is_resource: true,
        group: text("group"),
        version: if text("version").is_empty() { "*" } else { text("version") },
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        path: "",
        field_selector: selectors,
    }
}

fn one_question(spec: &Value) -> ErrorList {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_null() != path.is_null() {
        return ErrorList::new();
    }
    let message = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    vec![field::invalid(&Path::new("spec"), &go_form(path), message)]
}

/// The internal form of the attributes of a path: upstream prints it with Go's field names.
fn go_form(path: &Value) -> Value {
    if path.is_null() {
        return Value::Null;
    }
    json!({"Path": path["path"].as_str().unwrap_or_default(), "Verb": path["verb"].as_str().unwrap_or_default()})
}

fn empty_metadata(review: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(meta) = review["metadata"].as_object() else { return };
    let local = review["kind"] == "LocalSubjectAccessReview";
    let filled = meta.iter().any(|(key, value)| {
        let allowed = key == "managedFields" || key == "creationTimestamp" || (local && key == "namespace");
        !allowed && !value.is_null() && *value != json!("") && *value != json!({}) && *value != json!([])
    });
    if filled {
        let message = if local { "must be empty except for namespace" } else { "must be empty" };
        let kind = review["kind"].as_str().unwrap_or_default();
        let shown = Registry::builtin().by_kind("authorization.k8s.io", "v1", kind).map(|kind| {
            let ty = kind.schema.child(kind.ty, "metadata");
            Text::of(&review["metadata"], &kind.schema, ty).json()
        });
        let error = field::invalid(path, &review["metadata"], message);
        errors.push(match shown {
            Some(shown) => error.showing(shown),
            None => error,
        });
    }
}

/// Upstream names neither kind nor object here: the internal object has no kind.
fn refuse(errors: ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupVersionKind::new("authorization.k8s.io", "v1", ""), "", errors))
}
