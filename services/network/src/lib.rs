//! The pod network of a node: CNI configuration and routes.
