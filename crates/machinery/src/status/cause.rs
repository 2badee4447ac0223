//! Reasons of [`Cause`](super::Cause)s that are not field errors.

/// The field manager that owns a field stands in the way of an apply.
pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
/// The server's answer was not a Status.
pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
/// The requested version is not reached yet.
pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
/// The namespace is being deleted.
pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
/// A disruption budget forbids the eviction.
pub const DISRUPTION_BUDGET: &str = "DisruptionBudget";
/// The writer's claim on the key's shard is not the current one (Trireme's own).
pub const CLAIM_LOST: &str = "ClaimLost";
