//! The command line of `trireme up`.

use std::{collections::BTreeSet, path::PathBuf, str::FromStr};

/// The state directory of those who name none.
pub(crate) const STATE_DIR: &str = ".trireme";

/// How to bring an instance up.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Where everything of this instance lies.
    #[arg(long, default_value = STATE_DIR)]
    pub(crate) state_dir: PathBuf,
    /// Starts these parts only.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) only: Vec<Part>,
    /// How many nodes, 0 for the control plane alone. The first shares this machine's network unless another instance's
    /// does; every other one has its own network namespace.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) nodes: u8,
    /// How many store members (1, 3 or 5); kept from the first `up` on.
    #[arg(long, value_parser = members)]
    pub(crate) store_members: Option<u8>,
    /// The API server's port; by default the one it had, else 6443, else a free one.
    #[arg(long)]
    pub(crate) api_port: Option<u16>,
    /// Sends traces to this OTLP endpoint (gRPC), such as `http://127.0.0.1:4317`.
    #[arg(long, value_parser = endpoint)]
    pub(crate) otlp: Option<String>,
    /// A flag of a service: `controllers.node-monitor-grace-period=20s`. May be repeated.
    #[arg(long)]
    pub(crate) set: Vec<Setting>,
    /// Does not apply the examples; later `up`s do not either.
    #[arg(long, conflicts_with = "examples")]
    pub(crate) no_examples: bool,
    /// The folder of image archives to import; by default `images` beside the programs' folder.
    #[arg(long)]
    pub(crate) images: Option<PathBuf>,
    /// Applies the manifests of this folder, by default `examples` where the command runs. Without this, that is done at
    /// an instance's first whole `up` only.
    #[arg(long, num_args = 0..=1, default_missing_value = "examples")]
    pub(crate) examples: Option<PathBuf>,
}

/// A part of the cluster that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Part {
    /// The Raft store.
    Store,
    /// The bus.
    Nats,
    /// The API server.
    Apiserver,
    /// The controller workers.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// containerd and the kubelet of every node.
    Kubelet,
    /// The service proxy of every node.
    Proxy,
    /// The pod network of every node.
    Network,
}

impl Options {
    /// The parts to start.
    pub(crate) fn parts(&self) -> BTreeSet<Part> {
        use clap::ValueEnum as _;
        if self.only.is_empty() {
            Part::value_variants().iter().copied().collect()
        } else {
            self.only.iter().copied().collect()
        }
    }
}

/// A flag set for a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) service: String,
    pub(crate) flag: String,
    pub(crate) value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || "SERVICE.FLAG=VALUE, such as controllers.node-monitor-grace-period=20s".to_owned();
        let (name, value) = text.split_once('=').ok_or_else(wanted)?;
        let (service, flag) = name.split_once('.').ok_or_else(wanted)?;
        if service.is_empty() || flag.is_empty() {
            return Err(wanted());
        }
        let flag = flag.trim_start_matches('-').to_owned();
        Ok(Self { service: service.to_owned(), flag, value: value.to_owned() })
    }
}

impl Setting {
    /// Puts the flag into the arguments of a service, in place of its former value.
    pub(crate) fn apply(&self, arguments: &mut Vec<String>) {
        let flag = format!("--{}=", self.flag);
        arguments.retain(|a| !a.starts_with(&flag));
        arguments.push(format!("{flag}{}", self.value));
    }
}

/// The URL of a collector: the services would only refuse it once they run.
fn endpoint(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    let is = |url: &http::Uri| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|h| !h.is_empty())
    };
    match url.filter(is) {
        Some(_) => Ok(text.to_owned()),
        None => Err("an http or https URL, such as http://127.0.0.1:4317".to_owned()),
    }
}

fn members(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(n @ (1 | 3 | 5)) => Ok(n),
        _ => Err("1, 3 or 5".to_owned()),
    }
}

/// The options of a command line, for the tests of what reads them.
#[cfg(test)]
pub(crate) fn options(line: &[&str]) -> Options {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }
    <Line as clap::Parser>::parse_from([&["up"][..], line].concat()).options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_takes_the_place_of_the_former_value() {
        let setting: Setting = "controllers.node-monitor-grace-period=20s".parse().unwrap();
        let mut arguments = vec!["--node-monitor-grace-period=40s".to_owned(), "--leader-elect=true".to_owned()];
        setting.apply(&mut arguments);
        assert_eq!(arguments, ["--leader-elect=true", "--node-monitor-grace-period=20s"]);
    }

    #[test]
    fn a_collectors_url_is_one() {
        for url in ["http://127.0.0.1:4317", "https://collector.example/otlp", "http://[::1]:4317"] {
            assert_eq!(endpoint(url).as_deref(), Ok(url));
        }
        for text in ["notaurl", "127.0.0.1:4317", "grpc://127.0.0.1:4317", "http://", "", "/x"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_setting_without_service_or_value_is_refused() {
        for text in ["controllers", "controllers.x", "x=1", ".x=1", "controllers.=1"] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }
}
