//! `POST /api/v1/namespaces/<namespace>/serviceaccounts/<name>/token`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trireme_kinds::{Kind, Registry};
use trireme_machinery::gvk::{GroupResource, GroupVersionKind};
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;
use trireme_machinery::{field, meta, time};
use uuid::Uuid;

use super::claims::{Binding, Claims, Reference};
use super::jwt;
use super::keys::SigningKey;
use crate::auth::user::{quoted, service_account_name};
use crate::pipeline::{Context, Objects, Stored};

/// The shortest life of a token.
const SHORTEST: i64 = 10 * 60;
/// The longest life of a token.
const LONGEST: i64 = 1 << 32;
/// The life that a Pod's own volume asks for, by which it is known.
const PROJECTED: i64 = 3607;
/// What such a token gets instead, for clients that never read it again.
const EXTENDED: i64 = 365 * 24 * 3600;

/// Issues tokens.
pub struct Issuer {
    objects: Arc<dyn Objects>,
    key: SigningKey,
    issuer: String,
    audiences: Vec<String>,
    longest: i64,
    extend: bool,
    accounts: Arc<Kind>,
    pods: Arc<Kind>,
    secrets: Arc<Kind>,
    nodes: Arc<Kind>,
}

/// How tokens are issued.
pub struct Terms {
    /// What signs.
    pub key: SigningKey,
    /// Who issues.
    pub issuer: String,
    /// The audiences of a token that names none.
    pub audiences: Vec<String>,
    /// The longest life; zero for no limit.
    pub longest: Duration,
    /// Whether tokens of Pods' own volumes get a year.
    pub extend: bool,
}

impl Issuer {
    /// An issuer over these objects. `None` if the registry lacks one of its kinds.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, registry: &Registry, terms: Terms) -> Option<Self> {
        let core = |plural| registry.by_resource("", "v1", plural);
        Some(Self {
            objects,
            key: terms.key,
            issuer: terms.issuer,
            audiences: terms.audiences,
            longest: i64::try_from(terms.longest.as_secs()).unwrap_or(i64::MAX),
            extend: terms.extend,
            accounts: core("serviceaccounts")?,
            pods: core("pods")?,
            secrets: core("secrets")?,
            nodes: core("nodes")?,
        })
    }

    /// Answers a TokenRequest for a service account.
    pub async fn issue(&self, context: &Context, namespace: &str, name: &str, request: Value) -> Result<Value, Status> {
        let kind = GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest");
        let mut request = request;
        let same = |what: &str, has: &str, wanted: &str| {
            if has.is_empty() || has == wanted {
                return Ok(());
            }
            let path = Path::new("metadata").child(what);
            let error = field::invalid(&path, has, format!("must match the service account {what} if specified"));
            Err(Status::invalid(&kind, name, vec![error]))
        };
        same("name", meta::name(&request), name)?;
        same("namespace", meta::namespace(&request), namespace)?;
        let account = self.objects.get(&self.accounts, namespace, name).await?;
        let asked_uid = meta::uid(&request).to_owned();
        if !asked_uid.is_empty() && asked_uid != *account.uid {
            let why = format!(
                "the UID in the token request ({asked_uid}) does not match the UID of the service account ({})",
                account.uid
            );
            return Err(Status::conflict(&GroupResource::new(&*kind.group, &*kind.kind), name, why));
        }

        let mut life = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
        let mut errors = Vec::new();
        let path = Path::new("spec").child("expirationSeconds");
        if life < SHORTEST {
            errors.push(field::invalid(&path, &life, "may not specify a duration less than 10 minutes"));
        }
        if life > LONGEST {
            errors.push(field::invalid(&path, &life, "may not specify a duration larger than 2^32 seconds"));
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&kind, "", errors));
        }
        if self.longest > 0 && life > self.longest {
            context.warn(format!("requested expiration of {life} seconds shortened to {} seconds", self.longest));
            life = self.longest;
        }
        let mut audiences: Vec<String> = strings(&request["spec"]["audiences"]);
        if audiences.is_empty() {
            audiences.clone_from(&self.audiences);
        }

        let mut binding = self.bind(&account, &request["spec"]["boundObjectRef"]).await?;
        let now = context.now.as_second();
        let mut ends = now.saturating_add(life);
        let ours = audiences.iter().any(|audience| self.audiences.contains(audience));
        if self.extend && binding.pod.is_some() && life == PROJECTED && ours {
            binding.warnafter = Some(ends);
            ends = now.saturating_add(EXTENDED);
        }
        let claims = Claims {
            aud: audiences.clone(),
            exp: ends,
            iat: now,
            iss: self.issuer.clone(),
            jti: Uuid::new_v4().to_string(),
            kubernetes: binding,
            nbf: now,
            sub: service_account_name(namespace, name),
        };
        context.annotate("authentication.kubernetes.io/issued-credential-id", format!("JTI={}", claims.jti));
        let token = jwt::encode(&claims, &self.key)
            .map_err(|why| Status::internal(format!("failed to generate token: {why}")))?;

        meta::set_gvk(&mut request, &kind);
        meta::set_name(&mut request, name);
        meta::set_namespace(&mut request, namespace);
        meta::set_uid(&mut request, &account.uid);
        meta::set_creation_timestamp(&mut request, context.now);
        let until = jiff::Timestamp::from_second(now.saturating_add(life)).unwrap_or(context.now);
        if !request["spec"].is_object() {
            request["spec"] = json!({});
        }
        request["spec"]["audiences"] = json!(audiences);
        request["spec"]["expirationSeconds"] = json!(life);
        if request["spec"].get("boundObjectRef").is_none() {
            request["spec"]["boundObjectRef"] = Value::Null;
        }
        request["status"] = json!({"token": token, "expirationTimestamp": time::format(until)});
        Ok(request)
    }

    /// What the token of `account` is bound to.
    async fn bind(&self, account: &Stored, reference: &Value) -> Result<Binding, Status> {
        let mut binding =
            Binding { namespace: account.namespace.to_string(), serviceaccount: refer(account), ..Binding::default() };
        if reference.is_null() {
            return Ok(binding);
        }
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let bound = match (api_version, kind) {
            ("v1" | "", "Pod") => {
                let pod = self.objects.get(&self.pods, &account.namespace, name).await?;
                let value = pod.value();
                if value["spec"]["serviceAccountName"] != *account.name {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        quoted(&account.name)
                    )));
                }
                if let Some(node) = value["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                    let known = self.objects.reader().get(&self.nodes, "", node);
                    let unknown = Reference { name: node.to_owned(), uid: String::new() };
                    binding.node = Some(known.map_or(unknown, |node| refer(&node)));
                }
                binding.pod = Some(refer(&pod));
                pod
            }
            ("v1" | "", "Secret") => {
                let secret = self.objects.get(&self.secrets, &account.namespace, name).await?;
                binding.secret = Some(refer(&secret));
                secret
            }
            ("v1" | "", "Node") => {
                let node = self.objects.get(&self.nodes, "", name).await?;
                binding.node = Some(refer(&node));
                node
            }
            _ => {
                let kind = GroupVersionKind::from_api_version(api_version, kind);
                return Err(Status::bad_request(format!("cannot bind token to object of type {kind}")));
            }
        };
        let wanted = text("uid");
        if !wanted.is_empty() && wanted != &*bound.uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new("", kind), name, why));
        }
        Ok(binding)
    }
}

fn refer(stored: &Stored) -> Reference {
    Reference { name: stored.name.to_string(), uid: stored.uid.to_string() }
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
