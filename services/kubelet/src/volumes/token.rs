//! Tokens of service accounts, renewed before they end.

use crate::api::Objects;
use crate::error::Result;
use crate::pod::view::{self, spec};
use futures::future::join_all;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeSet, HashMap};

/// Audience and seconds.
type Key = (String, i64);

/// The tokens of one Pod; its worker keeps them.
#[derive(Debug, Default)]
pub struct Tokens {
    held: HashMap<Key, Held>,
}

#[derive(Clone)]
struct Held {
    token: String,
    requested: Timestamp,
    expires: Timestamp,
}

impl std::fmt::Debug for Held {
    /// When it is of use, not what it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("requested", &self.requested).field("expires", &self.expires).finish()
    }
}

impl Held {
    /// After four fifths of its life, or a day.
    fn is_due(&self, now: Timestamp) -> bool {
        let life = self.expires.duration_since(self.requested);
        let age = now.duration_since(self.requested);
        age > life * 4 / 5 || age > SignedDuration::from_hours(24)
    }
}

impl Tokens {
    /// Fetches all that the volumes of a Pod need, side by side. What can't be had is told when a volume needs it.
    pub async fn fetch(&mut self, pod: &Pod, objects: &dyn Objects) {
        let now = Timestamp::now();
        let wanted: BTreeSet<Key> = super::needs::tokens(pod).map(key).collect();
        let due = wanted.into_iter().filter(|key| self.held.get(key).is_none_or(|held| held.is_due(now)));
        let fetched = join_all(due.map(|key| async move { (ask(pod, &key, objects, now).await, key) })).await;
        self.held.extend(fetched.into_iter().filter_map(|(held, key)| Some((key, held.ok()?))));
    }

    /// A token that is good for a while; when a new one can't be had, the old one as long as it lives.
    pub(super) async fn get(
        &mut self,
        pod: &Pod,
        projection: &ServiceAccountTokenProjection,
        objects: &dyn Objects,
    ) -> Result<String> {
        let key = key(projection);
        let now = Timestamp::now();
        let held = self.held.get(&key).cloned();
        if let Some(held) = held.as_ref().filter(|held| !held.is_due(now)) {
            return Ok(held.token.clone());
        }
        match ask(pod, &key, objects, now).await {
            Ok(new) => {
                let token = new.token.clone();
                self.held.insert(key, new);
                Ok(token)
            }
            Err(error) => match held.filter(|held| held.expires > now) {
                Some(held) => Ok(held.token),
                None => Err(error),
            },
        }
    }

    /// When the next token is due.
    pub fn next_renewal(&self) -> Option<Timestamp> {
        self.held.values().map(|held| held.requested + held.expires.duration_since(held.requested) * 4 / 5).min()
    }
}

fn key(projection: &ServiceAccountTokenProjection) -> Key {
    (projection.audience.clone().unwrap_or_default(), projection.expiration_seconds.unwrap_or(3600))
}

async fn ask(pod: &Pod, (audience, seconds): &Key, objects: &dyn Objects, now: Timestamp) -> Result<Held> {
    let request = TokenRequestSpec {
        audiences: Some(if audience.is_empty() { Vec::new() } else { vec![audience.clone()] }),
        expiration_seconds: Some(*seconds),
        bound_object_ref: Some(BoundObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: Some(view::name(pod).to_owned()),
            uid: Some(view::uid(pod).to_owned()),
        }),
        ..TokenRequestSpec::default()
    };
    let account = spec(pod).service_account_name.as_deref().unwrap_or("default");
    let status = objects.token(view::namespace(pod), account, request).await?.status.unwrap_or_default();
    let expires = status.expiration_timestamp.map_or(now, |time| time.0);
    Ok(Held { token: status.token.unwrap_or_default(), requested: now, expires })
}
