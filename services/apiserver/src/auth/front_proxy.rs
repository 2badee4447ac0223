//! An authenticating front proxy: its client certificate vouches for the identity in its headers.

use percent_encoding::percent_decode_str;
use rustls_pki_types::CertificateDer;

use super::certificate::{CertificateAuthority, user_of};
use super::user::UserInfo;

/// What `--requestheader-*` says.
#[derive(Clone)]
pub struct FrontProxy {
    /// The CA of front proxies; never the one of clients.
    pub authority: CertificateAuthority,
    /// The common names that may vouch; empty admits all.
    pub allowed_names: Vec<String>,
    /// Headers that name the user, the first that is there counts.
    pub username_headers: Vec<String>,
    /// Headers that name the UID.
    pub uid_headers: Vec<String>,
    /// Headers that name groups.
    pub group_headers: Vec<String>,
    /// What the names of headers for `extra` begin with.
    pub extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Whether a header of this name may say who asks.
    #[must_use]
    pub fn reads(&self, header: &str) -> bool {
        let mut names = self.username_headers.iter().chain(&self.uid_headers).chain(&self.group_headers);
        names.any(|name| header.eq_ignore_ascii_case(name))
            || self.extra_prefixes.iter().any(|prefix| strip_prefix_ignore_case(header, prefix).is_some())
    }

    /// The vouched-for user; `None` if this is not a front proxy's request.
    #[must_use]
    pub fn authenticate(&self, chain: &[CertificateDer<'_>], headers: &[(String, String)]) -> Option<UserInfo> {
        let leaf = chain.first()?;
        self.authority.verify(chain).ok()?;
        let proxy = user_of(leaf).ok()?;
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&proxy.name) {
            return None;
        }
        let first = |names: &[String]| {
            let found = names.iter().flat_map(|name| values(headers, name)).find(|value| !value.is_empty());
            found.unwrap_or_default().to_owned()
        };
        let name = first(&self.username_headers);
        if name.is_empty() {
            return None;
        }
        let groups = self.group_headers.iter().flat_map(|name| values(headers, name)).map(str::to_owned).collect();
        let mut user = UserInfo { name, uid: first(&self.uid_headers), groups, ..UserInfo::default() };
        for (header, value) in headers {
            for prefix in &self.extra_prefixes {
                if let Some(key) = strip_prefix_ignore_case(header, prefix) {
                    user.extra.entry(decode_extra_key(key)).or_default().push(value.clone());
                }
            }
        }
        Some(user)
    }
}

fn values<'a>(headers: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    headers.iter().filter(move |(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// What follows `prefix` in a header's name.
pub(super) fn strip_prefix_ignore_case<'a>(header: &'a str, prefix: &str) -> Option<&'a str> {
    let head = header.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &header[prefix.len()..])
}

/// An extra key as headers carry it: percent-encoded and without case.
pub(super) fn decode_extra_key(encoded: &str) -> String {
    let lower = encoded.to_ascii_lowercase();
    let decoded = percent_decode_str(&lower).decode_utf8().map(|key| key.into_owned());
    decoded.unwrap_or(lower)
}
