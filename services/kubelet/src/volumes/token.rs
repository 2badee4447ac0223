//! Tokens of service accounts, renewed before they end.

use crate::api::Objects;
use crate::error::Result;
use crate::pod::view::{self, spec};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;

/// The tokens of one Pod; its worker keeps them.
#[derive(Debug, Default)]
pub struct Tokens {
    held: HashMap<(String, i64), Held>,
}

#[derive(Debug, Clone)]
struct Held {
    token: String,
    requested: Timestamp,
    expires: Timestamp,
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
    /// A token that is good for a while; when a new one can't be had, the old one as long as it lives.
    pub(super) async fn get(
        &mut self,
        pod: &Pod,
        projection: &ServiceAccountTokenProjection,
        objects: &dyn Objects,
    ) -> Result<String> {
        let audience = projection.audience.clone().unwrap_or_default();
        let seconds = projection.expiration_seconds.unwrap_or(3600);
        let key = (audience.clone(), seconds);
        let now = Timestamp::now();
        let held = self.held.get(&key).cloned();
        if let Some(held) = held.as_ref().filter(|held| !held.is_due(now)) {
            return Ok(held.token.clone());
        }
        let request = TokenRequestSpec {
            audiences: Some(if audience.is_empty() { Vec::new() } else { vec![audience] }),
            expiration_seconds: Some(seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: Some(view::name(pod).to_owned()),
                uid: Some(view::uid(pod).to_owned()),
            }),
            ..TokenRequestSpec::default()
        };
        let account = spec(pod).service_account_name.as_deref().unwrap_or("default");
        match objects.token(view::namespace(pod), account, request).await {
            Ok(answer) => {
                let status = answer.status.unwrap_or_default();
                let expires = status.expiration_timestamp.map_or(now, |time| time.0);
                let token = status.token.unwrap_or_default();
                let held = Held { token: token.clone(), requested: now, expires };
                self.held.insert(key, held);
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
