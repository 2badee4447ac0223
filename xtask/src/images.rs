//! OCI image archives of our own static programs, without a registry (OCI image layout 1.0).

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    paths,
    run::{cargo, run as execute},
};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A program that becomes an image.
struct Image {
    /// Cargo package and program.
    package: &'static str,
    program: &'static str,
    /// The image's name.
    reference: &'static str,
    user: &'static str,
}

const IMAGES: &[Image] = &[
    Image { package: "trireme-pause", program: "pause", reference: "trireme.local/pause:1", user: "65535:65535" },
    Image { package: "trireme-echo", program: "echo", reference: "trireme.local/echo:1", user: "" },
];

/// Builds every image; gives back the archives, which `trireme up` imports.
pub(crate) fn run() -> anyhow::Result<Vec<PathBuf>> {
    let target = paths::target().join("static");
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--target", TARGET]).arg("--target-dir").arg(&target);
    for image in IMAGES {
        command.args(["--package", image.package]);
    }
    execute(command.env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    let folder = paths::target().join("images");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    IMAGES
        .iter()
        .map(|image| {
            let program = target.join(TARGET).join("release").join(image.program);
            let file = folder.join(format!("{}.tar", image.program));
            write(image, &program, &file).with_context(|| format!("image {}", image.reference))?;
            Ok(file)
        })
        .collect()
}

fn write(image: &Image, program: &Path, file: &Path) -> anyhow::Result<()> {
    let layer = layer(image, &fs::read(program).with_context(|| program.display().to_string())?)?;
    let mut config = json!({
        "Entrypoint": [format!("/{}", image.program)],
        "Env": ["PATH=/"],
        "WorkingDir": "/",
    });
    if !image.user.is_empty() {
        config["User"] = image.user.into();
    }
    let config = serde_json::to_vec(&json!({
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    }))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
    }))?;
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["annotations"] = json!({
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference,
    });
    let index = serde_json::to_vec(&json!({ "schemaVersion": 2, "manifests": [entry] }))?;

    let mut archive = tar::Builder::new(Vec::new());
    add(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    for blob in [&layer, &config, &manifest] {
        add(&mut archive, &format!("blobs/{}", digest(blob).replace(':', "/")), blob, 0o644)?;
    }
    add(&mut archive, "index.json", &index, 0o644)?;
    let bytes = archive.into_inner()?;
    let mut out = fs::File::create(file)?;
    out.write_all(&bytes)?;
    Ok(())
}

/// One layer: the program, and the folders that a program expects.
fn layer(image: &Image, program: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    for (folder, mode) in [("tmp/", 0o1777), ("etc/", 0o755)] {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        header.set_mode(mode);
        layer.append_data(&mut header, folder, std::io::empty())?;
    }
    add(&mut layer, image.program, program, 0o755)?;
    Ok(layer.into_inner()?)
}

fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    archive.append_data(&mut header, name, content)?;
    Ok(())
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(content), "size": content.len() })
}
