//! The table of built-in kinds: scope, names, schema, defaults, validation, columns, subresources.
