//! Services on a node: nftables rules.
