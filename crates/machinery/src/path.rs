//! Paths to fields, as they stand in validation errors: `spec.containers[0].env[FOO]`.

use std::fmt;

/// A path to a field of an object. Cheap to extend; what it was extended from stays usable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Path(String);

impl Path {
    /// A path of one field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The path of no field at all, which upstream prints as `<nil>`.
    pub fn nil() -> Self {
        Self(String::new())
    }

    /// Whether this is the path of no field.
    pub fn is_nil(&self) -> bool {
        self.0.is_empty()
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.is_nil() { Self::new(name) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The element `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The value under `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_nil() { "<nil>" } else { &self.0 })
    }
}

impl From<&str> for Path {
    fn from(path: &str) -> Self {
        Self::new(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_the_field() {
        let path = Path::new("spec").child("containers").index(0).child("limits").key("cpu");
        assert_eq!(path.to_string(), "spec.containers[0].limits[cpu]");
        assert_eq!(Path::nil().to_string(), "<nil>");
        assert_eq!(Path::nil().child("values").index(0).to_string(), "values[0]");
    }
}
