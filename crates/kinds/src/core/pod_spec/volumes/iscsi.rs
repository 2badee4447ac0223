//! What is wrong with iSCSI volumes.

use trireme_machinery::field::{self, ErrorList};

use crate::check::Node;

pub(super) const TOO_LONG_PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

pub(super) fn iscsi(source: &Node<'_>, no_prefix: &str, errors: &mut ErrorList) {
    source.required("targetPortal", errors);
    if source.required("iqn", errors)
        && let Some(why) = qualified_name(source.str("iqn"), no_prefix)
    {
        source.invalid("iqn", why, errors);
    }
    source.within("lun", 0, 255, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.push(field::required(&source.path.child("secretRef"), ""));
    }
    if let Some(initiator) = source.given("initiatorName")
        && let Some(why) = qualified_name(initiator.text(), no_prefix)
    {
        errors.push(field::invalid(&source.path.child("initiatorname"), initiator.text(), why));
    }
}

/// What is wrong with the name of an iSCSI node.
fn qualified_name<'a>(name: &str, no_prefix: &'a str) -> Option<&'a str> {
    let hex =
        |text: &str, lengths: &[usize]| lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let valid = if let Some(rest) = name.strip_prefix("iqn") {
        is_iqn(rest)
    } else if let Some(rest) = name.strip_prefix("eui") {
        rest.strip_prefix('.').is_some_and(|d| hex(d, &[16]))
    } else if let Some(rest) = name.strip_prefix("naa") {
        rest.strip_prefix('.').is_some_and(|d| hex(d, &[16, 32]))
    } else {
        return Some(no_prefix);
    };
    (!valid).then_some("must be valid format")
}

/// `.2026-01.com.example:anything`
fn is_iqn(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('.') else { return false };
    let Some((date, naming)) = rest.split_once('.') else { return false };
    let Some((year, month)) = date.split_once('-') else { return false };
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let authority = naming.split(':').next().unwrap_or_default();
    let labels_fine =
        authority.split('.').all(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    digits(year, 4) && digits(month, 2) && labels_fine
}
