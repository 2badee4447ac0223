//! The pages of the services say what is so.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use regex::Regex;

/// Each service has a page, and every flag that its page names is one that the program has.
#[test]
fn every_service_has_a_page_that_names_its_flags() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let programs = trireme_testkit::program()?;
    let flag = Regex::new(r"`(--[a-z0-9-]+)")?;
    for service in std::fs::read_dir(root.join("services"))? {
        let name = service?.file_name().into_string().ok().context("the name of a service")?;
        let page = root.join(format!("docs/services/{name}.md"));
        let page = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let help = Command::new(programs.with_file_name(format!("trireme-{name}"))).arg("--help").output()?;
        let help = String::from_utf8(help.stdout)?;
        let has = |flag: &str| help.split(|c: char| c.is_whitespace() || "=[,".contains(c)).any(|word| word == flag);
        let absent: Vec<&str> =
            flag.captures_iter(&page).filter_map(|c| c.get(1)).map(|m| m.as_str()).filter(|f| !has(f)).collect();
        assert!(absent.is_empty(), "docs/services/{name}.md names flags that trireme-{name} has not: {absent:?}");
    }
    Ok(())
}
