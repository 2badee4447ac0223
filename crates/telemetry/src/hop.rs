//! The hops over which a trace context travels, and the switch that cuts one for a test.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::TraceParent;

/// The environment variable that names the hops (by comma) that lose the trace context in this process.
const CUT: &str = "TRIREME_TRACE_CUT";

/// A hop of a trace context from one process, or one part of a process, to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// API server to store: metadata of the call and the causes that a write carries.
    Store,
    /// Store to API server over the watch event bus (or the store's watch).
    Bus,
    /// API server to a watching client: the cause of each event.
    Watch,
    /// Within a client, from an informer's event to the reaction to it.
    Informer,
    /// A component's request to the API server.
    Apiserver,
    /// Kubelet to container runtime.
    Cri,
}

impl Hop {
    /// The hop's word in `TRIREME_TRACE_CUT`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Bus => "bus",
            Self::Watch => "watch",
            Self::Informer => "informer",
            Self::Apiserver => "apiserver",
            Self::Cri => "cri",
        }
    }

    /// Whether this process was told to lose the context at this hop.
    #[must_use]
    pub fn is_cut(self) -> bool {
        static HOPS: OnceLock<BTreeSet<String>> = OnceLock::new();
        let cut = HOPS.get_or_init(|| std::env::var(CUT).map(|list| parse(&list)).unwrap_or_default());
        !cut.is_empty() && cut.contains(self.as_str())
    }

    /// What arrives of `parent` after this hop: itself, or nothing when the hop is cut.
    #[must_use]
    pub fn carry(self, parent: Option<TraceParent>) -> Option<TraceParent> {
        parent.filter(|_| !self.is_cut())
    }
}

fn parse(list: &str) -> BTreeSet<String> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hops() {
        assert_eq!(parse(" store, cri ,"), BTreeSet::from(["store".to_owned(), "cri".to_owned()]));
        assert!(!Hop::Store.is_cut());
    }
}
