//! What types and fields mean, in the words of the k8s-openapi crate; see `build.rs`.

/// Sorted lines: `type field "description"`, the field being empty for the type itself.
const DESCRIPTIONS: &str = include_str!(concat!(env!("OUT_DIR"), "/descriptions.txt"));

/// The description of a type (by its published name), or of one of its fields.
#[must_use]
pub fn describe(type_name: &str, field: Option<&str>) -> Option<String> {
    let wanted = format!("{type_name} {} ", field.unwrap_or_default());
    let (mut low, mut high) = (0, DESCRIPTIONS.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = DESCRIPTIONS[..floor(middle)].rfind('\n').map_or(0, |at| at + 1);
        let end = DESCRIPTIONS[start..].find('\n').map_or(DESCRIPTIONS.len(), |at| start + at);
        let line = &DESCRIPTIONS[start..end];
        if let Some(literal) = line.strip_prefix(&wanted) {
            return serde_json::from_str(literal).ok();
        }
        if line < wanted.as_str() {
            low = end + 1;
        } else {
            high = start;
        }
    }
    None
}

/// The nearest start of a character at or before `at`.
fn floor(at: usize) -> usize {
    (0..=at).rev().find(|at| DESCRIPTIONS.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_descriptions() {
        let text = describe("io.k8s.api.core.v1.PodSpec", Some("containers")).unwrap();
        assert!(text.starts_with("List of containers belonging to the pod."), "{text}");
        assert_eq!(describe("io.k8s.api.core.v1.PodSpec", None).unwrap(), "PodSpec is a description of a pod.");
        let protocol = describe("io.k8s.api.core.v1.ContainerPort", Some("protocol")).unwrap();
        assert!(protocol.ends_with("Defaults to \"TCP\"."), "{protocol}");
        assert_eq!(describe("io.k8s.api.core.v1.PodSpec", Some("nope")), None);
    }

    #[test]
    fn every_line_is_found() {
        for line in DESCRIPTIONS.lines() {
            let mut words = line.splitn(3, ' ');
            let (name, field) = (words.next().unwrap(), words.next().unwrap());
            assert!(describe(name, Some(field)).is_some(), "{name} {field}");
        }
    }
}
