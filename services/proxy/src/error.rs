//! What can go wrong here.

/// An error of the proxy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mode is not one that this proxy has.
    #[error("--proxy-mode={0} is not available: this proxy programs nftables only, use --proxy-mode=nftables")]
    Mode(String),
    /// A flag's value is malformed.
    #[error("--{flag}={value}: {reason}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// As it was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The nft command can't be run.
    #[error("cannot run nft: {0} (install the package nftables, and run as root or with CAP_NET_ADMIN)")]
    NoNft(std::io::Error),
    /// nft refused a script.
    #[error("nft failed: {0}")]
    Nft(String),
    /// The conntrack command can't be run or failed.
    #[error("conntrack failed: {0}")]
    Conntrack(String),
    /// The API server can't be reached the way the flags say.
    #[error(transparent)]
    Client(#[from] trireme_client::Error),
    /// The harness failed.
    #[error(transparent)]
    Service(#[from] trireme_service::Error),
}
