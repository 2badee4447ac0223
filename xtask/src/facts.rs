//! `cargo xtask facts`: makes `crates/kinds/facts.txt` from the Go types of Kubernetes.
//!
//! The types of the modules k8s.io/{api,apimachinery,apiextensions-apiserver,kube-aggregator} are read where Go keeps
//! them (`go mod download` fetches them once): field names, types and numbers stand in the struct tags, list types, keys
//! and defaults in the markers of the comments. Only these facts are taken. The notation is told in
//! `crates/kinds/src/facts.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

mod go;
mod render;

/// The release of the modules.
const VERSION: &str = "v0.37.2";
/// The modules that hold the types of what is served.
const MODULES: [&str; 4] =
    ["k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator"];
/// The packages whose kinds are served; what they refer to is followed.
const SERVED: [&str; 24] = [
    "k8s.io/api/admissionregistration/v1",
    "k8s.io/api/apps/v1",
    "k8s.io/api/authentication/v1",
    "k8s.io/api/authorization/v1",
    "k8s.io/api/autoscaling/v1",
    "k8s.io/api/autoscaling/v2",
    "k8s.io/api/batch/v1",
    "k8s.io/api/certificates/v1",
    "k8s.io/api/coordination/v1",
    "k8s.io/api/core/v1",
    "k8s.io/api/discovery/v1",
    "k8s.io/api/events/v1",
    "k8s.io/api/flowcontrol/v1",
    "k8s.io/api/networking/v1",
    "k8s.io/api/node/v1",
    "k8s.io/api/policy/v1",
    "k8s.io/api/rbac/v1",
    "k8s.io/api/resource/v1",
    "k8s.io/api/scheduling/v1",
    "k8s.io/api/storage/v1",
    "k8s.io/api/storagemigration/v1",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
    "k8s.io/apimachinery/pkg/apis/meta/v1",
];

/// Makes the table anew.
pub(crate) fn run() -> Result<()> {
    let source = Modules::download()?;
    let mut packages = go::Packages::new(&source);
    let mut table = render::Table::default();
    for package in SERVED {
        for name in packages.kinds(package)? {
            table.add(&mut packages, package, &name)?;
        }
    }
    let target = crate::paths::root().join("crates/kinds/facts.txt");
    let mut text =
        format!("# Facts of the API types of Kubernetes {VERSION}, made by `cargo xtask facts`. Do not edit.\n");
    for (name, lines) in &table.types {
        writeln!(text, "{name}{lines}")?;
    }
    std::fs::write(&target, &text).with_context(|| format!("writing {}", target.display()))?;
    let fields = text.lines().filter(|l| l.starts_with(' ')).count();
    println!("{} types, {fields} fields, {} bytes in crates/kinds/facts.txt", table.types.len(), text.len());
    Ok(())
}

/// Where the sources lie.
pub(crate) struct Modules {
    roots: BTreeMap<&'static str, PathBuf>,
}

impl Modules {
    fn download() -> Result<Self> {
        let mut roots = BTreeMap::new();
        for module in MODULES {
            let wanted = format!("{module}@{VERSION}");
            // Outside this repository, so that no go.mod is asked for.
            let output = Command::new("go")
                .args(["mod", "download", "-json", &wanted])
                .current_dir(std::env::temp_dir())
                .output()
                .context("`cargo xtask facts` needs Go (apt-get install golang-go)")?;
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("go mod download {wanted}: {}", String::from_utf8_lossy(&output.stderr)))?;
            let Some(dir) = answer["Dir"].as_str() else { bail!("go mod download {wanted}: {}", answer["Error"]) };
            roots.insert(module, PathBuf::from(dir));
        }
        Ok(Self { roots })
    }

    /// The Go files of a package, tests aside.
    fn files(&self, package: &str) -> Result<Vec<PathBuf>> {
        let Some((module, root)) =
            self.roots.iter().find(|(m, _)| package.strip_prefix(**m).is_some_and(|rest| rest.starts_with('/')))
        else {
            bail!("no module has {package}")
        };
        let dir = root.join(package[module.len()..].trim_start_matches('/'));
        let mut files = BTreeSet::new();
        for entry in std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let generated = name.starts_with("zz_") || name.contains("generated") || name.contains("swagger");
            if name.ends_with(".go") && !name.ends_with("_test.go") && !generated {
                files.insert(path);
            }
        }
        Ok(files.into_iter().collect())
    }
}
