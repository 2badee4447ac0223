//! What a service account token says.

use serde::{Deserialize, Deserializer, Serialize};

/// The claims of a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom it is for.
    #[serde(default, deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// When it ends.
    #[serde(default)]
    pub exp: i64,
    /// When it was issued.
    #[serde(default)]
    pub iat: i64,
    /// Who issued it.
    #[serde(default)]
    pub iss: String,
    /// Its id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// What it is bound to.
    #[serde(rename = "kubernetes.io", default)]
    pub kubernetes: Binding,
    /// When it begins.
    #[serde(default)]
    pub nbf: i64,
    /// The user name.
    #[serde(default)]
    pub sub: String,
}

/// The objects without which a token is worth nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Binding {
    /// The namespace of all but the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The node it is bound to; of a pod's token, the node of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The pod it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The secret it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The account it speaks for.
    pub serviceaccount: Reference,
    /// From when on its use is noted, because it lives longer than was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// An object by name and UID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}
