//! The configuration of the bus' NATS server. Whoever publishes on the bus puts objects into API servers' caches, and who
//! hears it reads them: so the server knows its clients by certificates of the store's authority, members may only
//! publish, API servers only listen, and nobody else may do anything. Pure: files and names in, text out.

use trireme_pki::{AuthorityName, Identity, Pair, Pki};

/// The configuration of a server that listens at `listen` and serves these store members.
///
/// # Errors
/// The server's certificate cannot be made.
pub(crate) fn configuration(
    pki: &Pki,
    listen: &str,
    members: &[String],
    addresses: &[String],
) -> anyhow::Result<String> {
    let Pair { cert, key } = pki.issue(&Identity::bus(addresses))?;
    let authority = pki.authority_file(AuthorityName::Store);
    let user = |name: &str, publish: &str, subscribe: &str| {
        format!("    {{ user: \"CN={name}\", permissions: {{ publish: {publish}, subscribe: {subscribe} }} }}\n")
    };
    // A subscription is confirmed by a message to oneself.
    let mut users =
        user(&Identity::apiserver_store_client().common_name, "[\"_INBOX.>\"]", "[\"watch.>\", \"_INBOX.>\"]");
    for member in members {
        users += &user(member, "[\"watch.>\"]", "{ deny: \">\" }");
    }
    Ok(format!(
        "listen: \"{listen}\"\n\
         tls {{\n  \
           cert_file: \"{cert}\"\n  key_file: \"{key}\"\n  ca_file: \"{authority}\"\n  \
           verify_and_map: true\n  timeout: 5\n\
         }}\n\
         authorization {{\n  users = [\n{users}  ]\n}}\n",
        cert = cert.display(),
        key = key.display(),
        authority = authority.display(),
    ))
}
