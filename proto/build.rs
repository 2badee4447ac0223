//! Compiles every `.proto` file of this folder with protox (no protoc on the machine).
use std::path::{Path, PathBuf};

fn proto_files(dir: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            proto_files(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            out.push(path);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let mut files = Vec::new();
    for dir in ["trireme", "etcd", "cri"] {
        let dir = root.join(dir);
        println!("cargo:rerun-if-changed={}", dir.display());
        if dir.exists() {
            proto_files(&dir, &mut files)?;
        }
    }
    files.sort();
    let descriptors = protox::compile(&files, [&root])?;
    tonic_prost_build::configure().bytes(".").build_transport(true).compile_fds(descriptors)?;
    Ok(())
}
