//! What people see in the events of a node when its conditions change.

use k8s_openapi::api::core::v1::NodeCondition;

/// The reasons of the events, from the conditions that the API server has to those that are told it now. A condition that it
/// does not have yet is news, but for Ready.
pub(super) fn between(known: &[NodeCondition], now: &[NodeCondition]) -> Vec<&'static str> {
    let before = |type_: &str| known.iter().find(|one| one.type_ == type_).map(|one| one.status.as_str());
    now.iter()
        .filter(|one| before(&one.type_) != Some(one.status.as_str()))
        .filter(|one| one.type_ != "Ready" || before("Ready").is_some())
        .filter_map(|one| reason(&one.type_, one.status == "True"))
        .collect()
}

fn reason(type_: &str, is: bool) -> Option<&'static str> {
    Some(match (type_, is) {
        ("Ready", true) => "NodeReady",
        ("Ready", false) => "NodeNotReady",
        ("MemoryPressure", true) => "NodeHasInsufficientMemory",
        ("MemoryPressure", false) => "NodeHasSufficientMemory",
        ("DiskPressure", true) => "NodeHasDiskPressure",
        ("DiskPressure", false) => "NodeHasNoDiskPressure",
        ("PIDPressure", true) => "NodeHasInsufficientPID",
        ("PIDPressure", false) => "NodeHasSufficientPID",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(all: &[(&str, &str)]) -> Vec<NodeCondition> {
        let one = |(type_, status): &(&str, &str)| NodeCondition {
            type_: (*type_).into(),
            status: (*status).into(),
            ..NodeCondition::default()
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn what_changed_is_news() {
        let well = conditions(&[
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
            ("Ready", "True"),
        ]);
        let sufficient = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"];
        assert_eq!(between(&[], &well), sufficient, "a new node: Ready comes without");
        assert!(between(&well, &well).is_empty());
        let full = conditions(&[("DiskPressure", "True"), ("Ready", "False")]);
        assert_eq!(between(&well, &full), ["NodeHasDiskPressure", "NodeNotReady"]);
        let unknown = conditions(&[("DiskPressure", "Unknown"), ("Ready", "Unknown")]);
        assert_eq!(between(&unknown, &full), ["NodeHasDiskPressure", "NodeNotReady"]);
        assert_eq!(between(&unknown, &well)[1..], ["NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]);
    }
}
