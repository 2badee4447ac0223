//! The object model of Kubernetes, pure: metadata, names, selectors, quantities, patches, schemas, Status.
