//! How a component finds its API server and who it is there: kubeconfig, service account, flags.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::Value;
use url::Url;

use crate::error::Error;

/// Flags of every component that talks to an API server.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ClientArgs {
    /// Path to the kubeconfig file; without it, the service account of the Pod this runs in.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of the kubeconfig's.
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// Address of the API server's gRPC door, as in https://10.0.0.1:6444; several with commas. Without it, Kubernetes' REST API.
    #[arg(long, value_name = "URL")]
    pub resources_endpoint: Option<String>,
    /// Requests a second to the API server; unset or negative: the server alone limits.
    #[arg(long, value_name = "N")]
    pub kube_api_qps: Option<f64>,
    /// Requests at once above that rate.
    #[arg(long, value_name = "N")]
    pub kube_api_burst: Option<u32>,
}

/// Where a bearer token comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// Known.
    Fixed(String),
    /// In a file that is read again when it is a minute old.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    /// Where it comes from, not what it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Fixed"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Everything needed to reach an API server.
#[derive(Clone)]
pub struct Config {
    /// Kubernetes' REST API.
    pub server: Url,
    /// The gRPC door, if this component takes it.
    pub resources_endpoint: Option<String>,
    /// Certificates that sign the server's (PEM).
    pub certificate_authority: Option<Vec<u8>>,
    /// Client certificate and key (PEM).
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Bearer token.
    pub token: Option<Token>,
    /// The name in the server's certificate, if it is not the host of the address.
    pub tls_server_name: Option<String>,
    /// Take any server certificate.
    pub insecure_skip_tls_verify: bool,
    /// Namespace of the kubeconfig's context.
    pub namespace: Option<String>,
    /// The first word of the user agent is the field manager of writes.
    pub user_agent: String,
    /// Requests a second; unset: no limit here.
    pub qps: Option<f64>,
    /// Requests at once above that rate.
    pub burst: u32,
    /// Log what the server warns about.
    pub warnings: bool,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("server", &self.server.as_str())
            .field("resources_endpoint", &self.resources_endpoint)
            .field("certificate", &self.identity.is_some())
            .field("token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Config {
    /// As the flags say; `component` is the user agent's first word ("kube-scheduler").
    ///
    /// # Errors
    /// The kubeconfig cannot be read or is not one.
    pub fn from_args(args: &ClientArgs, component: &str) -> Result<Self, Error> {
        let mut config = match &args.kubeconfig {
            Some(path) => Self::from_kubeconfig(path, args.resources_endpoint.clone())?,
            None => Self { resources_endpoint: args.resources_endpoint.clone(), ..Self::in_cluster()? },
        };
        if let Some(master) = &args.master {
            config.server = parse_url(master)?;
        }
        config.user_agent = format!("{component}/v{} (linux/amd64) trireme", env!("CARGO_PKG_VERSION"));
        config.qps = args.kube_api_qps.filter(|q| *q > 0.0);
        config.burst = args.kube_api_burst.unwrap_or(30);
        Ok(config)
    }

    /// Reads the current context of a kubeconfig file.
    ///
    /// # Errors
    /// The file cannot be read or is not a kubeconfig this client can use.
    pub fn from_kubeconfig(path: impl AsRef<Path>, resources_endpoint: Option<String>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = read(path)?;
        let text = String::from_utf8(text).map_err(|e| Error::Config(format!("{}: {e}", path.display())))?;
        let base = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, base, resources_endpoint).map_err(|e| match e {
            Error::Config(reason) => Error::Config(format!("kubeconfig {}: {reason}", path.display())),
            other => other,
        })
    }

    pub(crate) fn parse(text: &str, base: &Path, resources_endpoint: Option<String>) -> Result<Self, Error> {
        let file: Value = serde_saphyr::from_str(text).map_err(|e| Error::Config(e.to_string()))?;
        let current = file.get("current-context").and_then(Value::as_str).unwrap_or_default();
        let context = named(&file, "contexts", "context", current)?;
        let cluster = named(&file, "clusters", "cluster", text_of(context, "cluster").unwrap_or_default())?;
        let empty = Value::Null;
        let user = match text_of(context, "user") {
            Some(user) => named(&file, "users", "user", user)?,
            None => &empty,
        };
        for unsupported in ["exec", "auth-provider", "username"] {
            if user.get(unsupported).is_some_and(|v| !v.is_null()) {
                return Err(Error::Config(format!(
                    "users of kind {unsupported} are not supported: use a client certificate or a token"
                )));
            }
        }
        let certificate = data(user, "client-certificate", base)?;
        let key = data(user, "client-key", base)?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(Error::Config("a client certificate needs its key, and the other way round".into())),
        };
        let token = match (text_of(user, "token"), text_of(user, "tokenFile")) {
            (_, Some(file)) => Some(Token::File(base.join(file))),
            (Some(token), None) => Some(Token::Fixed(token.to_owned())),
            (None, None) => None,
        };
        Ok(Self {
            server: parse_url(text_of(cluster, "server").unwrap_or("http://localhost:8080"))?,
            resources_endpoint,
            certificate_authority: data(cluster, "certificate-authority", base)?,
            identity,
            token,
            tls_server_name: text_of(cluster, "tls-server-name").map(str::to_owned),
            insecure_skip_tls_verify: cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or(false),
            namespace: text_of(context, "namespace").map(str::to_owned),
            user_agent: default_user_agent(),
            qps: None,
            burst: 30,
            warnings: true,
        })
    }

    /// The service account of the Pod this runs in.
    ///
    /// # Errors
    /// This does not run in a Pod.
    pub fn in_cluster() -> Result<Self, Error> {
        let (Ok(host), Ok(port)) = (std::env::var("KUBERNETES_SERVICE_HOST"), std::env::var("KUBERNETES_SERVICE_PORT"))
        else {
            return Err(Error::Config("no --kubeconfig given and not running in a Pod".into()));
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let directory = Path::new(SERVICE_ACCOUNT);
        let namespace = read(&directory.join("namespace")).ok().and_then(|n| String::from_utf8(n).ok());
        Ok(Self {
            server: parse_url(&format!("https://{host}:{port}"))?,
            resources_endpoint: None,
            certificate_authority: Some(read(&directory.join("ca.crt"))?),
            identity: None,
            token: Some(Token::File(directory.join("token"))),
            tls_server_name: None,
            insecure_skip_tls_verify: false,
            namespace,
            user_agent: default_user_agent(),
            qps: None,
            burst: 30,
            warnings: true,
        })
    }

    /// The server's warnings are no news: a component that takes old kinds on purpose, and is tested with them.
    #[must_use]
    pub fn without_warnings(mut self) -> Self {
        self.warnings = false;
        self
    }

    /// The first word of the user agent.
    #[must_use]
    pub fn component(&self) -> &str {
        self.user_agent.split('/').next().unwrap_or_default()
    }
}

fn default_user_agent() -> String {
    format!("trireme/v{}", env!("CARGO_PKG_VERSION"))
}

fn parse_url(text: &str) -> Result<Url, Error> {
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    Url::parse(&text).map_err(|e| Error::Config(format!("{text:?} is not an address: {e}")))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|e| Error::Config(format!("cannot read {}: {e}", path.display())))
}

fn text_of<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|t| !t.is_empty())
}

fn named<'a>(file: &'a Value, list: &str, field: &str, name: &str) -> Result<&'a Value, Error> {
    file.get(list)
        .and_then(Value::as_array)
        .and_then(|entries| entries.iter().find(|e| e.get("name").and_then(Value::as_str) == Some(name)))
        .and_then(|entry| entry.get(field))
        .ok_or_else(|| Error::Config(format!("{list} has no {name:?}")))
}

/// `<field>-data` in base64, or the file that `<field>` names.
fn data(value: &Value, field: &str, base: &Path) -> Result<Option<Vec<u8>>, Error> {
    if let Some(encoded) = text_of(value, &format!("{field}-data")) {
        return base64::engine::general_purpose::STANDARD
            .decode(encoded.trim())
            .map(Some)
            .map_err(|e| Error::Config(format!("{field}-data: {e}")));
    }
    text_of(value, field).map(|path| read(&base.join(path))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r"
apiVersion: v1
kind: Config
current-context: b
clusters:
- {name: c, cluster: {server: 'https://10.0.0.1:6443', certificate-authority-data: Y2E=}}
contexts:
- {name: a, context: {cluster: x, user: y}}
- {name: b, context: {cluster: c, user: u, namespace: blue}}
users:
- {name: u, user: {token: secret}}
";

    #[test]
    fn the_current_context_is_taken() {
        let config = Config::parse(FILE, Path::new("/"), None).unwrap();
        assert_eq!(config.server.as_str(), "https://10.0.0.1:6443/");
        assert_eq!(config.certificate_authority.as_deref(), Some(&b"ca"[..]));
        assert_eq!(config.token, Some(Token::Fixed("secret".into())));
        assert_eq!(config.namespace.as_deref(), Some("blue"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let broken = FILE.replace("current-context: b", "current-context: a");
        let error = Config::parse(&broken, Path::new("/"), None).unwrap_err();
        assert_eq!(error.to_string(), "clusters has no \"x\"");
    }
}
