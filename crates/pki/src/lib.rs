//! Keys and certificates: the authorities of a cluster and every identity in it.
