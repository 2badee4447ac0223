//! Whose token it is, and whether it still counts.

use std::sync::Arc;

use trireme_kinds::{Kind, Registry};
use trireme_machinery::meta;

use super::claims::{Claims, Reference};
use super::jwt;
use super::keys::VerifyingKey;
use crate::auth::authenticator::Authenticated;
use crate::auth::user::{UserInfo, extra, quoted_list, service_account_groups, service_account_name};
use crate::pipeline::Reader;

/// By how much clocks may differ, and how long an object that is being deleted still vouches.
const LEEWAY: i64 = 60;

/// Verifies service account tokens against keys and the watch cache.
pub struct ServiceAccountTokens {
    reader: Arc<dyn Reader>,
    keys: Vec<VerifyingKey>,
    issuers: Vec<String>,
    audiences: Vec<String>,
    accounts: Arc<Kind>,
    pods: Arc<Kind>,
    secrets: Arc<Kind>,
    nodes: Arc<Kind>,
}

impl ServiceAccountTokens {
    /// A verifier of tokens that `keys` signed for one of `issuers`; `audiences` are the API server's own names.
    #[must_use]
    pub fn new(
        reader: Arc<dyn Reader>,
        registry: &Registry,
        keys: Vec<VerifyingKey>,
        issuers: Vec<String>,
        audiences: Vec<String>,
    ) -> Option<Self> {
        let core = |plural| registry.by_resource("", "v1", plural);
        Some(Self {
            reader,
            keys,
            issuers,
            audiences,
            accounts: core("serviceaccounts")?,
            pods: core("pods")?,
            secrets: core("secrets")?,
            nodes: core("nodes")?,
        })
    }

    /// The API server's own audiences.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The keys, as they are published.
    #[must_use]
    pub fn keys(&self) -> &[VerifyingKey] {
        &self.keys
    }

    /// The user a token proves to one of `wanted` audiences (none means our own).
    pub fn authenticate(&self, token: &str, wanted: &[String]) -> Result<Authenticated, String> {
        self.authenticate_at(token, wanted, jiff::Timestamp::now().as_second())
    }

    fn authenticate_at(&self, token: &str, wanted: &[String], now: i64) -> Result<Authenticated, String> {
        let issuer = jwt::peek::<Claims>(token).map(|claims| claims.iss);
        if !issuer.is_some_and(|issuer| self.issuers.contains(&issuer)) {
            return Err("invalid bearer token".into());
        }
        let claims: Claims = jwt::decode(token, &self.keys)?;
        let wanted = if wanted.is_empty() { &self.audiences } else { wanted };
        let audiences: Vec<String> = wanted.iter().filter(|audience| claims.aud.contains(audience)).cloned().collect();
        if audiences.is_empty() {
            let (have, want) = (quoted_list(&claims.aud), quoted_list(wanted));
            return Err(format!("token audiences {have} is invalid for the target audiences {want}"));
        }
        if claims.exp + LEEWAY < now {
            return Err("service account token has expired".into());
        }
        if claims.nbf - LEEWAY > now {
            return Err("service account token is not valid yet".into());
        }
        self.check_bound(&claims, now)?;
        Ok(Authenticated { user: user(&claims)?, audiences })
    }

    /// Checks that everything the token is bound to is there and is the same as when it was issued.
    fn check_bound(&self, claims: &Claims, now: i64) -> Result<(), String> {
        let bound = &claims.kubernetes;
        let account = &bound.serviceaccount;
        self.check_object(&self.accounts, &bound.namespace, account, now).map_err(|why| match why {
            Gone::Missing => format!("serviceaccount \"{}\" not found", account.name),
            Gone::Replaced(uid) => format!("service account UID ({uid}) does not match claim ({})", account.uid),
            Gone::Deleted => format!("service account {}/{} has been deleted", bound.namespace, account.name),
        })?;
        let invalidated = |what: &str, reference: &Reference, why| match why {
            Gone::Replaced(uid) => {
                format!("{what} UID ({uid}) does not match service account {what} ref claim ({})", reference.uid)
            }
            Gone::Missing | Gone::Deleted => "service account token has been invalidated".to_owned(),
        };
        if let Some(secret) = &bound.secret {
            let found = self.check_object(&self.secrets, &bound.namespace, secret, now);
            found.map_err(|why| invalidated("secret", secret, why))?;
        }
        if let Some(pod) = &bound.pod {
            self.check_object(&self.pods, &bound.namespace, pod, now).map_err(|why| invalidated("pod", pod, why))?;
        } else if let Some(node) = &bound.node {
            self.check_object(&self.nodes, "", node, now).map_err(|why| invalidated("node", node, why))?;
        }
        Ok(())
    }

    fn check_object(&self, kind: &Kind, namespace: &str, reference: &Reference, now: i64) -> Result<(), Gone> {
        let stored = self.reader.get(kind, namespace, &reference.name).ok_or(Gone::Missing)?;
        if *stored.uid != *reference.uid {
            return Err(Gone::Replaced(stored.uid.to_string()));
        }
        match meta::deletion_timestamp(&stored.value()) {
            Some(deleted) if deleted.as_second() < now - LEEWAY => Err(Gone::Deleted),
            _ => Ok(()),
        }
    }
}

enum Gone {
    Missing,
    Replaced(String),
    Deleted,
}

fn user(claims: &Claims) -> Result<UserInfo, String> {
    let bound = &claims.kubernetes;
    let (namespace, account) = (&bound.namespace, &bound.serviceaccount);
    let name = service_account_name(namespace, &account.name);
    if name != claims.sub {
        return Err("service account name claim does not match the subject".into());
    }
    let mut user =
        UserInfo { name, uid: account.uid.clone(), groups: service_account_groups(namespace), ..UserInfo::default() };
    let mut add = |key: &str, value: String| _ = user.extra.insert(key.to_owned(), vec![value]);
    if !claims.jti.is_empty() {
        add(extra::CREDENTIAL_ID, format!("JTI={}", claims.jti));
    }
    if let Some(pod) = &bound.pod {
        add(extra::POD_NAME, pod.name.clone());
        add(extra::POD_UID, pod.uid.clone());
    }
    if let Some(node) = &bound.node {
        add(extra::NODE_NAME, node.name.clone());
        if !node.uid.is_empty() {
            add(extra::NODE_UID, node.uid.clone());
        }
    }
    Ok(user)
}
