//! Flags: the shared ones, a configuration file of flags, and the forms of values that upstream's flags take.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use trireme_telemetry::{LogFormat, Settings};

use crate::Error;

/// The flags that every service takes.
#[derive(Clone, Debug, Args)]
pub struct CommonArgs {
    /// YAML file: a mapping from flag names to values, which the command line overrides; or, for services that have
    /// one, the component's configuration kind
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// OTLP gRPC address of the trace collector; without it no span is sent
    #[arg(long, value_name = "URL", env = "TRIREME_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
    /// Part of all traces that is recorded, 0 to 1, decided by trace id
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    pub trace_sampling: f64,
    /// Form of log lines: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// How much is logged: 0 what an operator needs, 4 what a developer needs, 6 everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u8,
    /// Address of the pages /livez, /readyz, /metrics and /debug/spans
    #[arg(long, value_name = "ADDRESS")]
    pub health_bind_address: Option<String>,
    /// Threads of the runtime
    #[arg(long, value_name = "N", default_value_t = 2, hide = true)]
    pub worker_threads: usize,
    /// How long an orderly shutdown may take
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration, hide = true)]
    pub shutdown_timeout: Duration,
}

impl Default for CommonArgs {
    fn default() -> Self {
        Self {
            config: None,
            otlp_endpoint: None,
            trace_sampling: 1.0,
            log_format: LogFormat::Text,
            verbosity: 0,
            health_bind_address: None,
            worker_threads: 2,
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}

impl CommonArgs {
    /// What they say about telemetry.
    #[must_use]
    pub fn telemetry(&self, service: &str, instance: &str) -> Settings {
        let level = match self.verbosity {
            0..=3 => "info",
            4..=5 => "debug",
            _ => "trace",
        };
        Settings {
            service: service.to_owned(),
            instance: instance.to_owned(),
            otlp_endpoint: self.otlp_endpoint.clone(),
            sampling: self.trace_sampling,
            log_format: self.log_format,
            log_level: level.to_owned(),
        }
    }
}

/// Parses the process's flags, after those of the `--config` file if it holds flags (a file with a `kind` is the
/// service's own business). A wrong flag ends the process the way clap does.
///
/// # Errors
/// When the configuration file cannot be read or is no mapping of flags.
pub fn parse<A: Parser>() -> Result<A, Error> {
    let line: Vec<OsString> = std::env::args_os().collect();
    let line = with_config(line)?;
    Ok(A::parse_from(line))
}

/// The command line with the flags of its `--config` file put in; those that the command line has itself are left out.
///
/// # Errors
/// When the file cannot be read or is no mapping of flags.
pub fn with_config(line: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    let Some(path) = config_path(&line) else { return Ok(line) };
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let malformed = |reason: String| Error::Content { path: path.clone(), reason };
    let file: serde_json::Value = serde_saphyr::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    let flags = match file {
        serde_json::Value::Object(flags) => flags,
        serde_json::Value::Null => return Ok(line),
        _ => return Err(malformed("a mapping from flag names to values was expected".to_owned())),
    };
    if flags.contains_key("kind") {
        return Ok(line);
    }
    let given: BTreeSet<String> = line.iter().filter_map(|word| flag_name(word.to_str()?)).collect();
    let mut out = Vec::with_capacity(line.len() + flags.len());
    out.extend(line.first().cloned());
    for (name, value) in flags {
        if given.contains(&name) {
            continue;
        }
        let values = match value {
            serde_json::Value::Array(values) => values,
            other => vec![other],
        };
        for value in values {
            let value = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Bool(_) | serde_json::Value::Number(_) => value.to_string(),
                _ => return Err(malformed(format!("{name}: a string, number, boolean or list of them was expected"))),
            };
            out.push(format!("--{name}={value}").into());
        }
    }
    out.extend(line.into_iter().skip(1));
    Ok(out)
}

fn config_path(line: &[OsString]) -> Option<PathBuf> {
    let mut words = line.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(PathBuf::from(path));
        }
    }
    None
}

fn flag_name(word: &str) -> Option<String> {
    if word.starts_with("-v") && !word.starts_with("--") {
        return Some("v".to_owned());
    }
    let name = word.strip_prefix("--")?;
    Some(name.split('=').next().unwrap_or(name).to_owned())
}

/// Parses a duration the way upstream's flags write it: `40s`, `1m30s`, `500ms`, `1.5h`, `0`.
///
/// # Errors
/// When it is none, or negative.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("invalid duration {text:?}");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(bad()),
        };
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())?;
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = tail;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        common: CommonArgs,
        #[arg(long, value_delimiter = ',')]
        server: Vec<String>,
        #[arg(long, default_value = "1s", value_parser = parse_duration)]
        period: Duration,
    }

    fn parse(words: &[&str]) -> Flags {
        let line = std::iter::once("x").chain(words.iter().copied()).map(OsString::from).collect();
        Flags::parse_from(with_config(line).unwrap())
    }

    #[test]
    fn durations() {
        for (text, millis) in [("40s", 40_000), ("1m30s", 90_000), ("500ms", 500), ("1.5h", 5_400_000), ("0", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1x", "1..2s", "99999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("flags.yaml");
        std::fs::write(&file, "period: 3s\nserver: [a, b]\nv: 4\ntrace-sampling: 0.5\n").unwrap();
        let file = file.to_str().unwrap();

        let flags = parse(&["--config", file]);
        assert_eq!(flags.period, Duration::from_secs(3));
        assert_eq!(flags.server, ["a", "b"]);
        assert_eq!(flags.common.verbosity, 4);

        let flags = parse(&["--period=5s", &format!("--config={file}"), "--server", "c", "-v2"]);
        assert_eq!(flags.period, Duration::from_secs(5));
        assert_eq!(flags.server, ["c"]);
        assert_eq!(flags.common.verbosity, 2);
        assert!((flags.common.trace_sampling - 0.5).abs() < f64::EPSILON);
    }

    #[test]
    fn a_component_configuration_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubelet.yaml");
        std::fs::write(&file, "kind: KubeletConfiguration\nmaxPods: 3\n").unwrap();
        assert_eq!(parse(&["--config", file.to_str().unwrap()]).common.config, Some(file));
    }

    #[test]
    fn a_bad_file_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("flags.yaml");
        let line = || vec![OsString::from("x"), OsString::from("--config"), file.clone().into()];
        assert!(matches!(with_config(line()), Err(Error::Read { .. })));
        std::fs::write(&file, "- a\n").unwrap();
        assert!(matches!(with_config(line()), Err(Error::Content { .. })));
        std::fs::write(&file, "server: {a: b}\n").unwrap();
        assert!(matches!(with_config(line()), Err(Error::Content { .. })));
    }
}
