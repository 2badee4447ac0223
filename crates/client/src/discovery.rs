//! Which resources an API server serves.

use serde::Deserialize;

use crate::client::Client;
use crate::error::Error;
use crate::object::ApiResource;

/// A resource with the verbs it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The resource, in its group's preferred version.
    pub resource: ApiResource,
    /// As in "list".
    pub verbs: Vec<String>,
}

impl Served {
    /// It takes all of these verbs.
    #[must_use]
    pub fn takes(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|v| v == verb))
    }
}

/// What could be found out.
#[derive(Debug, Clone, Default)]
pub struct Discovered {
    /// Every resource, once, in the preferred version of its group.
    pub resources: Vec<Served>,
    /// Groups whose resources could not be found out (an aggregated API server that is down), with the reason.
    pub failed: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    preferred_version: Version,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    group_version: String,
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Client {
    /// Asks for every resource the server has. A group that cannot be asked is told, not an error.
    ///
    /// # Errors
    /// The server does not answer at all.
    pub async fn discover(&self) -> Result<Discovered, Error> {
        let mut found = Discovered::default();
        let core: Resources = self.get_json("/api/v1").await?;
        add(&mut found, "", "v1", core);
        let groups: Groups = self.get_json("/apis").await?;
        for group in groups.groups {
            // Resources that only another version has come from there.
            let preferred = &group.preferred_version;
            let others = group.versions.iter().filter(|v| v.version != preferred.version);
            for version in std::iter::once(preferred).chain(others) {
                match self.get_json::<Resources>(&format!("/apis/{}", version.group_version)).await {
                    Ok(resources) => add(&mut found, &group.name, &version.version, resources),
                    Err(error) => found.failed.push((version.group_version.clone(), error.to_string())),
                }
            }
        }
        Ok(found)
    }
}

fn add(found: &mut Discovered, group: &str, version: &str, resources: Resources) {
    for resource in resources.resources.into_iter().filter(|r| !r.name.contains('/')) {
        let known = found.resources.iter().any(|f| f.resource.group == group && f.resource.plural == resource.name);
        if known {
            continue;
        }
        found.resources.push(Served {
            resource: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: resource.kind,
                plural: resource.name,
                namespaced: resource.namespaced,
            },
            verbs: resource.verbs,
        });
    }
}
