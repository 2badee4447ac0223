//! Takes the descriptions of types and fields out of the k8s-openapi crate's sources, so that `kubectl explain` and Tables
//! can show them: they are its texts, and none of them is in this repository. The result is a sorted text, searched where
//! it lies in the binary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    let mut lines = BTreeMap::new();
    if let Some(sources) = sources()? {
        visit(&sources, &mut lines)?;
    }
    let mut text = String::new();
    for (key, description) in &lines {
        text.push_str(&format!("{key} {description}\n"));
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptions.txt");
    fs::write(out, text)?;
    Ok(())
}

/// Where the crate's types of the version that we serve are.
fn sources() -> Result<Option<PathBuf>, Error> {
    let cargo = env::var("CARGO")?;
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform"])
        .arg(env::var("TARGET")?)
        .arg("--manifest-path")
        .arg(&manifest)
        .output()?;
    if !output.status.success() {
        // Without network and without a lock file there are no texts, and everything else works.
        println!("cargo:warning=no descriptions: {}", String::from_utf8_lossy(&output.stderr).trim());
        return Ok(None);
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let package = packages.iter().find(|package| package["name"] == "k8s-openapi");
    let manifest = package.and_then(|package| package["manifest_path"].as_str()).map(Path::new);
    Ok(manifest.and_then(Path::parent).map(|root| root.join("src/v1_37")))
}

fn visit(folder: &Path, lines: &mut BTreeMap<String, String>) -> Result<(), Error> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            visit(&path, lines)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            read(&fs::read_to_string(&path)?, lines);
        }
    }
    Ok(())
}

/// Reads the schema of the one type in a file: its name, its own description, and those of its fields.
fn read(source: &str, lines: &mut BTreeMap<String, String>) {
    let Some((_, schema)) = source.split_once("impl crate::schemars::JsonSchema for") else { return };
    let mut name = "";
    let mut field = "";
    for line in schema.lines().map(str::trim) {
        if name.is_empty() {
            if let Some(quoted) = line.strip_suffix(".into()").and_then(|line| line.strip_prefix('"')) {
                name = quoted.trim_end_matches('"');
            }
            continue;
        }
        let literal = line.strip_prefix("\"description\": ").and_then(|rest| rest.strip_suffix(',')).or_else(|| {
            let rest = line.strip_prefix("schema_obj.ensure_object().insert(\"description\".into(), ")?;
            rest.strip_suffix(".into());")
        });
        if let Some(literal) = literal {
            lines.entry(format!("{name} {field}")).or_insert_with(|| literal.to_owned());
        } else if let Some(key) = line.strip_suffix(": {").or_else(|| line.strip_suffix(": ({")) {
            let key = key.trim_matches('"');
            if !matches!(key, "properties" | "items" | "additionalProperties") {
                field = key;
            }
        }
    }
}
