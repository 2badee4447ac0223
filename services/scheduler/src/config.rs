//! The scheduler's flags.

use std::time::Duration;

use trireme_client::ClientArgs;
use trireme_service::CommonArgs;

/// The scheduler's flags.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "trireme-scheduler", about = "Places pods on nodes.", disable_version_flag = true)]
pub struct Config {
    /// Flags of every service.
    #[command(flatten)]
    pub common: CommonArgs,
    /// How the API server is reached.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Whether the scheduler may be one of several: it then schedules while it holds the claim. There is always a claim,
    /// so this is accepted and changes nothing.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// A holder of the claim that gave no sign for this long has lost it.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = trireme_service::args::parse_duration)]
    pub claim_duration: Duration,
    /// Address, certificate and clients of the health and metrics pages.
    #[command(flatten)]
    pub serving: trireme_service::ServingArgs,
    /// Port of the health and metrics pages; 0 serves none.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub secure_port: u16,
    /// Pods that name this scheduler are placed.
    #[arg(long, value_name = "NAME", default_value = "default-scheduler")]
    pub scheduler_name: String,
    /// A placement joins the trace of what caused it if that is no older.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = trireme_service::args::parse_duration)]
    pub trace_window: Duration,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn upstreams_flags_are_taken() {
        let config = Config::parse_from([
            "x",
            "--leader-elect=false",
            "--secure-port=0",
            "--kubeconfig=f",
            "--claim-duration=5s",
        ]);
        assert!(!config.leader_elect);
        assert_eq!(config.claim_duration, Duration::from_secs(5));
        assert!(Config::parse_from(["x", "--leader-elect"]).leader_elect);
    }
}
