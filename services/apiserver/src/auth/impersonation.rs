//! Acting as someone else: `Impersonate-User`, `-Uid`, `-Group` and `-Extra-*`.
//!
//! Five modes are tried from the narrowest to the widest, and the first that is allowed counts. The constrained ones ask
//! twice: may the caller act as this user in this mode, and may it do *this* while doing so
//! (`impersonate-on:<mode>:<verb>`). The legacy mode asks for `impersonate` only. The error is that of the first mode that applies.

use std::collections::BTreeMap;

use trireme_machinery::names;
use trireme_machinery::status::Status;

use super::attributes::Attributes;
use super::authorizer::{Authorizer, forbidden};
use super::front_proxy::{decode_extra_key, strip_prefix_ignore_case};
use super::user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODE_PREFIX, NODES, UNAUTHENTICATED, UserInfo, extra, quoted, quoted_list,
    service_account_groups, split_service_account,
};

const AUTHENTICATION: &str = "authentication.k8s.io";
/// From how many values on a single question for all of them is tried first.
const MANY: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// The user that a request is made as: the one its headers ask for, if `caller` may act so, or else `caller`.
pub fn apply(
    authorizer: &Authorizer,
    caller: UserInfo,
    asked: &Attributes<'_>,
    headers: &[(String, String)],
) -> Result<UserInfo, Status> {
    let Some(wanted) = wanted(headers)? else { return Ok(caller) };
    let mut first = None;
    for mode in MODES.into_iter().filter(|mode| mode.applies(&wanted, &caller)) {
        let attempt = Attempt { authorizer, caller: &caller, mode };
        match attempt.check(&wanted, asked) {
            Ok(user) => return Ok(user),
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    Err(first.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// Reads the headers; `None` without any of them.
fn wanted(headers: &[(String, String)]) -> Result<Option<UserInfo>, Status> {
    let mut user = UserInfo::default();
    for (name, value) in headers {
        if name.eq_ignore_ascii_case("impersonate-user") {
            user.name.clone_from(value);
        } else if name.eq_ignore_ascii_case("impersonate-uid") {
            user.uid.clone_from(value);
        } else if name.eq_ignore_ascii_case("impersonate-group") {
            user.groups.push(value.clone());
        } else if let Some(key) = strip_prefix_ignore_case(name, "impersonate-extra-") {
            user.extra.entry(decode_extra_key(key)).or_default().push(value.clone());
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == UserInfo::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", go_syntax(&user))))
}

/// The user as Go's `%#v` prints it.
fn go_syntax(user: &UserInfo) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> = user.extra.iter().map(|(k, v)| format!("{}:{}", quoted(k), list(v))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    let (name, uid) = (quoted(&user.name), quoted(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

fn node_of(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| names::is_dns1123_subdomain(name).is_empty())
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn applies(self, wanted: &UserInfo, caller: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_of(&wanted.name);
        let account = split_service_account(&wanted.name);
        match self {
            Self::AssociatedNode => {
                only_name
                    && node.is_some()
                    && caller.service_account().is_some()
                    && caller.extra_value(extra::NODE_NAME) == node
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

/// One mode tried for one caller.
struct Attempt<'a> {
    authorizer: &'a Authorizer,
    caller: &'a UserInfo,
    mode: Mode,
}

impl Attempt<'_> {
    fn check(&self, wanted: &UserInfo, asked: &Attributes<'_>) -> Result<UserInfo, Status> {
        let constrained = self.mode != Mode::Legacy;
        let verb = if constrained { format!("impersonate:{}", self.mode.name()) } else { "impersonate".to_owned() };
        if constrained {
            let on = format!("impersonate-on:{}:{}", self.mode.name(), asked.verb);
            self.authorizer.require(self.caller, &Attributes { verb: &on, ..*asked })?;
        }
        let group = if constrained { AUTHENTICATION } else { "" };
        let mut user = wanted.clone();
        self.name(&verb, group, wanted, &mut user)?;
        if !wanted.uid.is_empty() {
            self.ask(Attributes::resource(&verb, AUTHENTICATION, "uids").named("", &wanted.uid))?;
        }
        self.groups(&verb, group, &wanted.groups)?;
        self.extra(&verb, &wanted.extra)?;
        if user.name == ANONYMOUS {
            user.ensure_group(UNAUTHENTICATED);
        } else if !user.in_group(UNAUTHENTICATED) {
            user.ensure_group(AUTHENTICATED);
        }
        Ok(user)
    }

    fn ask(&self, attributes: Attributes<'_>) -> Result<(), Status> {
        self.authorizer.require(self.caller, &attributes)
    }

    fn name(&self, verb: &str, group: &str, wanted: &UserInfo, user: &mut UserInfo) -> Result<(), Status> {
        let mut attributes = Attributes::resource(verb, group, "users").named("", &wanted.name);
        let mut what = "node";
        if self.mode != Mode::Legacy
            && let Some(node) = node_of(&wanted.name)
        {
            attributes.resource = "nodes";
            // The check must hold for any node, since it is the association that limits this mode.
            attributes.name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            user.groups = vec![NODES.to_owned()];
        } else if let Some((namespace, name)) = split_service_account(&wanted.name) {
            attributes.resource = "serviceaccounts";
            attributes = attributes.named(namespace, name);
            what = "service account";
            if wanted.groups.is_empty() {
                user.groups = service_account_groups(namespace);
            }
        } else {
            return self.ask(attributes);
        }
        if self.mode != Mode::Legacy && !wanted.groups.is_empty() {
            let reason =
                format!("when impersonating a {what}, cannot impersonate groups {}", quoted_list(&wanted.groups));
            return Err(forbidden(self.caller, &attributes, &reason));
        }
        self.ask(attributes)
    }

    fn groups(&self, verb: &str, api_group: &str, groups: &[String]) -> Result<(), Status> {
        let question = Attributes::resource(verb, api_group, "groups");
        if self.mode != Mode::Legacy {
            if groups.iter().any(String::is_empty) {
                return Err(forbidden(self.caller, &question, "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let question = question.named("", MASTERS);
                return Err(forbidden(self.caller, &question, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && self.ask(question.named("", "*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.ask(question.named("", group)))
    }

    fn extra(&self, verb: &str, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let question = Attributes::resource(verb, AUTHENTICATION, "userextras");
        if self.mode != Mode::Legacy {
            if extra.values().flatten().any(String::is_empty) {
                let reason = "impersonating the empty string value in extra is not allowed";
                return Err(forbidden(self.caller, &question, reason));
            }
            let count: usize = extra.values().map(Vec::len).sum();
            if count >= MANY && self.ask(Attributes { subresource: "*", name: "*", ..question }).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.ask(Attributes { subresource: key, name: value, ..question })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn groups_need_a_user() {
        let error = wanted(&[header("Impersonate-Group", "g")]).unwrap_err();
        assert_eq!(
            error.message,
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, \
             Extra:map[string][]string(nil)} without impersonating a user name"
        );
    }

    #[test]
    fn reads_all_headers() {
        let headers = [
            header("impersonate-user", "a"),
            header("Impersonate-Group", "g1"),
            header("Impersonate-Group", "g2"),
            header("Impersonate-Extra-Example.com%2Fscopes", "view"),
        ];
        let user = wanted(&headers).unwrap().unwrap();
        assert_eq!(user.groups, ["g1", "g2"]);
        assert_eq!(user.extra["example.com/scopes"], ["view"]);
        assert_eq!(wanted(&[header("accept", "x")]).unwrap(), None);
    }
}
