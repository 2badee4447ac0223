//! What can be wrong with text that this crate reads. Errors of fields are in [`crate::field`], answers in
//! [`crate::status`].

/// What can be wrong with text that this crate reads; each message is what Kubernetes says about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A selector of labels or fields that does not parse.
    #[error("{0}")]
    Selector(String),
    /// A quantity that has not the form of one.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    QuantityForm,
    /// A quantity whose number does not parse.
    #[error("unable to parse numeric part of quantity")]
    QuantityNumber,
    /// A quantity whose suffix does not exist.
    #[error("unable to parse quantity's suffix")]
    QuantitySuffix,
    /// Neither a number nor a percentage.
    #[error("{0}")]
    IntOrString(String),
    /// A time that is not RFC 3339.
    #[error("{0}")]
    Time(String),
    /// A duration that Go would not read.
    #[error("{0}")]
    Duration(String),
    /// A body that is not JSON.
    #[error("{0}")]
    Json(String),
    /// A body that is not YAML.
    #[error("{0}")]
    Yaml(String),
    /// A body that is not protobuf.
    #[error("{0}")]
    Protobuf(String),
    /// A patch that does not have the form of one.
    #[error("{0}")]
    PatchForm(String),
    /// A patch that cannot be applied to this object.
    #[error("{0}")]
    PatchApply(String),
    /// A patch that stumbles over the object in a way that Kubernetes has no name for.
    #[error("{0}")]
    PatchFailed(String),
    /// A patch that is larger than what is taken.
    #[error("{0}")]
    PatchTooLarge(String),
}
