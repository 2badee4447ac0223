//! The kinds of Kubernetes, bound to their schemas.

use std::sync::Arc;

use trireme_machinery::schema::{DefaultFn, Schema};

use crate::{Error, Registry, facts};

/// The committed table of facts.
const FACTS: &str = include_str!("../facts.txt");

/// All built-in kinds. A kind whose type is missing from the table is left out, which a test forbids.
pub(crate) fn registry() -> Registry {
    let schema = Arc::new(schema().unwrap_or_default());
    let mut registry = Registry::new(schema.clone());
    for definition in definitions() {
        if let Some(kind) = definition.bind(&schema) {
            registry.insert(Arc::new(kind));
        }
    }
    registry
}

/// The types of the table with their defaults.
fn schema() -> Result<Schema, Error> {
    let mut builder = facts::parse(FACTS)?;
    for (name, defaults) in defaults() {
        if !builder.set_defaults(&facts::full_name(name), defaults) && !builder.set_defaults(name, defaults) {
            return Err(Error::UnknownType { name });
        }
    }
    Ok(builder.build())
}

/// The defaults of types, by the type's name in the table.
fn defaults() -> impl Iterator<Item = (&'static str, DefaultFn)> {
    [
        crate::core::DEFAULTS,
        crate::apps::DEFAULTS,
        crate::batch::DEFAULTS,
        crate::autoscaling::DEFAULTS,
        crate::networking::DEFAULTS,
        crate::rbac::DEFAULTS,
        crate::storage::DEFAULTS,
        crate::discovery::DEFAULTS,
        crate::scheduling::DEFAULTS,
        crate::admissionregistration::DEFAULTS,
        crate::flowcontrol::DEFAULTS,
        crate::resource::DEFAULTS,
        crate::authentication::DEFAULTS,
        crate::apiextensions::DEFAULTS,
        crate::apiregistration::DEFAULTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Group by group, in the order in which Kubernetes lists its groups.
fn definitions() -> Vec<crate::definition::Definition> {
    [
        crate::core::definitions(),
        crate::apiregistration::definitions(),
        crate::apps::definitions(),
        crate::events::definitions(),
        crate::authentication::definitions(),
        crate::authorization::definitions(),
        crate::autoscaling::definitions(),
        crate::batch::definitions(),
        crate::certificates::definitions(),
        crate::networking::definitions(),
        crate::policy::definitions(),
        crate::rbac::definitions(),
        crate::storage::definitions(),
        crate::storagemigration::definitions(),
        crate::admissionregistration::definitions(),
        crate::apiextensions::definitions(),
        crate::scheduling::definitions(),
        crate::coordination::definitions(),
        crate::node::definitions(),
        crate::discovery::definitions(),
        crate::resource::definitions(),
        crate::flowcontrol::definitions(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_understood_and_no_kind_is_without_a_type() {
        let schema = Arc::new(schema().unwrap());
        let missing: Vec<usize> =
            definitions().into_iter().enumerate().filter_map(|(i, d)| d.bind(&schema).is_none().then_some(i)).collect();
        assert!(missing.is_empty(), "definitions without a type: {missing:?}");
    }
}
