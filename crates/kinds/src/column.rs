//! The columns of a Table.

/// A column of a Table, as `kubectl get` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// The type of its cells (`string`, `integer`, `date`).
    pub ty: String,
    /// The format of its cells (`name`), mostly empty.
    pub format: String,
    /// What it means.
    pub description: String,
    /// 0 for what is always shown, more for `-o wide`.
    pub priority: i32,
}

impl Column {
    /// A column that is always shown.
    pub fn new(name: &str, ty: &str, description: &str) -> Self {
        Self { name: name.to_owned(), ty: ty.to_owned(), format: String::new(), description: description.to_owned(), priority: 0 }
    }

    /// A column that only `-o wide` shows.
    pub fn wide(name: &str, ty: &str, description: &str) -> Self {
        Self { priority: 1, ..Self::new(name, ty, description) }
    }

    /// The name of the object.
    pub fn name() -> Self {
        Self { format: "name".to_owned(), ..Self::new("Name", "string", NAME) }
    }

    /// The age of the object.
    pub fn age() -> Self {
        Self::new("Age", "string", CREATION_TIMESTAMP)
    }

    /// The time of creation, which kinds without columns of their own show.
    pub fn created_at() -> Self {
        Self::new("Created At", "date", CREATION_TIMESTAMP)
    }
}

/// Clients see these two texts in every Table.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATION_TIMESTAMP: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
