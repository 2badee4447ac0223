//! Where nodes live: one instance at a time has one in this machine's own network.

use std::{fs, path::Path};

use anyhow::Context as _;

use crate::{
    process,
    state::{Instance, State},
};

/// Who has this machine's network: the path of a state directory.
pub(crate) const HOLDER: &str = "/run/trireme/host-network";

/// Whether a node of this instance may share this machine's network; takes it if so. `holder` says who has it.
///
/// # Errors
/// That it is taken cannot be written down.
pub(crate) fn take_host_network(state: &State, holder: &Path) -> anyhow::Result<bool> {
    if let Ok(other) = fs::read_to_string(holder)
        && Path::new(&other) != state.root()
        && let Some(other) = State::existing(Path::new(&other))
        && process::runs_any(&other)?
    {
        return Ok(false);
    }
    let take = || {
        holder.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(holder, state.root().as_os_str().as_encoded_bytes())
    };
    take().with_context(|| holder.display().to_string())?;
    Ok(true)
}

/// Where node 1 lives, and whether Services are reachable from this machine.
pub(crate) fn summary(instance: &Instance) -> String {
    match instance.nodes.get(&1) {
        None => "There is no node: Pods stay Pending.".to_owned(),
        Some(true) => "node-1 shares this machine's network: Services are reachable from here.".to_owned(),
        Some(false) => format!(
            "Another instance has this machine's network, so node-1 has one of its own: Services are not reachable from \
             here, but with\n  ip netns exec {} curl …",
            instance.namespace(1)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_whether_services_are_reachable() {
        let said = |nodes: &[(u8, bool)]| {
            summary(&Instance {
                version: 1,
                id: "0a1b2c".to_owned(),
                network: [10, 200, 7],
                store_members: 1,
                nodes: nodes.iter().copied().collect(),
                was_up: false,
            })
        };
        assert!(said(&[]).contains("no node"));
        assert!(said(&[(1, true), (2, false)]).contains("are reachable from here"));
        assert!(said(&[(1, false)]).contains("not reachable") && said(&[(1, false)]).contains("trireme-0a1b2c-n1"));
    }
}
