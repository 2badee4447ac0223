//! Logs of containers, in the format that CRI runtimes write: `<time> <stdout|stderr> <P|F> <text>`.

use super::log_watch::{Watch, Woken};
use crate::cri::Cri;
use crate::cri::state::Stage;
use crate::pod::view;
use bytes::Bytes;
use futures::Stream;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt as _, AsyncSeekExt as _, BufReader};

const BLOCK: u64 = 64 << 10;
/// Lines are collected up to this size before they are sent.
const CHUNK: usize = 32 << 10;

/// Query parameters, as the API server passes them on.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameters {
    follow: Option<String>,
    tail_lines: Option<String>,
    since_seconds: Option<String>,
    since_time: Option<String>,
    timestamps: Option<String>,
    previous: Option<String>,
    limit_bytes: Option<String>,
    stream: Option<String>,
}

fn truth(text: Option<&String>) -> bool {
    text.is_some_and(|text| !matches!(text.to_lowercase().as_str(), "false" | "0"))
}

impl Parameters {
    /// The run before the last one is asked for.
    pub fn previous(&self) -> bool {
        truth(self.previous.as_ref())
    }
}

/// What of a log is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    follow: bool,
    tail: Option<u64>,
    since: Option<Timestamp>,
    timestamps: bool,
    limit: Option<u64>,
    stream: Option<&'static str>,
}

impl Options {
    /// Reads the parameters.
    pub fn of(parameters: &Parameters) -> Result<Self, String> {
        let number = |name: &str, text: &Option<String>| match text.as_deref() {
            None => Ok(None),
            Some(text) => text.parse::<u64>().map(Some).map_err(|_| format!("{name}: Invalid value: \"{text}\"")),
        };
        let mut since = match parameters.since_time.as_deref() {
            None => None,
            Some(text) => Some(
                text.parse::<Timestamp>().map_err(|error| format!("sinceTime: Invalid value: \"{text}\": {error}"))?,
            ),
        };
        if let Some(seconds) = number("sinceSeconds", &parameters.since_seconds)? {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX / 2);
            since = Timestamp::now().checked_sub(SignedDuration::from_secs(seconds)).ok();
        }
        Ok(Self {
            follow: truth(parameters.follow.as_ref()),
            tail: number("tailLines", &parameters.tail_lines)?,
            since,
            timestamps: truth(parameters.timestamps.as_ref()),
            limit: number("limitBytes", &parameters.limit_bytes)?,
            stream: match parameters.stream.as_deref() {
                Some("Stdout") => Some("stdout"),
                Some("Stderr") => Some("stderr"),
                _ => None,
            },
        })
    }
}

/// The file of one run of a container.
#[derive(Debug, Clone)]
pub struct Window {
    path: PathBuf,
    container_id: String,
}

impl Window {
    /// Finds it; what stands in the way is told in upstream's words.
    pub async fn find(cri: &Cri, pod: &Pod, container: &str, previous: bool) -> Result<Self, String> {
        let name = view::name(pod);
        let state = cri.pod_state(view::uid(pod)).await.map_err(|error| error.to_string())?;
        let mut runs = state.containers.iter().filter(|run| run.name == container);
        let latest = runs.next();
        if previous {
            let waits = status_of(pod, container).is_some_and(|status| is_waiting(status).is_some());
            // A container in its back-off has ended once more than its status says.
            let ended = match latest {
                Some(latest) if latest.stage != Stage::Running && waits => Some(latest),
                _ => runs.next(),
            };
            let run = ended
                .ok_or_else(|| format!("previous terminated container \"{container}\" in pod \"{name}\" not found"))?;
            return Ok(Self { path: PathBuf::from(&run.log_path), container_id: run.id.clone() });
        }
        match latest {
            Some(run) if run.stage != Stage::Created => {
                Ok(Self { path: PathBuf::from(&run.log_path), container_id: run.id.clone() })
            }
            _ => {
                let status = status_of(pod, container);
                let (reason, message) = status.and_then(is_waiting).unwrap_or_default();
                let waits = format!("container \"{container}\" in pod \"{name}\" is waiting to start");
                Err(match reason.as_str() {
                    "" => format!("{waits}: ContainerCreating"),
                    "ErrImagePull" => format!("{waits}: image can't be pulled"),
                    "ImagePullBackOff" => format!("{waits}: trying and failing to pull image"),
                    _ if message.is_empty() => format!("{waits}: {reason}"),
                    _ => format!("{waits}: {reason}"),
                })
            }
        }
    }
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses]
        .into_iter()
        .flatten()
        .flatten()
        .find(|status| status.name == container)
}

fn is_waiting(status: &ContainerStatus) -> Option<(String, String)> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    Some((waiting.reason.clone().unwrap_or_default(), waiting.message.clone().unwrap_or_default()))
}

/// One line of a log file.
struct Line<'a> {
    time: &'a str,
    stream: &'a str,
    whole: bool,
    text: &'a [u8],
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(parts.next()?).ok();
    let (time, stream, tags) = (word()?, word()?, word()?);
    let text = parts.next().unwrap_or_default();
    Some(Line { time, stream, whole: tags.split(':').next() == Some("F"), text })
}

/// Turns lines of the file into what the client gets.
struct Writer {
    options: Options,
    left: u64,
    at_line_start: bool,
    out: Vec<u8>,
}

impl Writer {
    fn new(options: Options) -> Self {
        Self { left: options.limit.unwrap_or(u64::MAX), options, at_line_start: true, out: Vec::new() }
    }

    fn push(&mut self, raw: &[u8]) {
        let Some(line) = parse(raw) else { return };
        if self.options.stream.is_some_and(|stream| stream != line.stream) {
            return;
        }
        if let Some(since) = self.options.since
            && line.time.parse::<Timestamp>().is_ok_and(|time| time < since)
        {
            return;
        }
        if self.options.timestamps && self.at_line_start {
            self.write(line.time.as_bytes());
            self.write(b" ");
        }
        self.write(line.text);
        if line.whole {
            self.write(b"\n");
        }
        self.at_line_start = line.whole;
    }

    fn write(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.out.extend_from_slice(&bytes[..fits]);
        self.left -= fits as u64;
    }

    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.out))
    }
}

/// The log as a stream of chunks; following, it ends when the container does.
pub fn stream(cri: Cri, window: Window, options: Options) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    async_stream::try_stream! {
        let mut writer = Writer::new(options.clone());
        let mut watch = options.follow.then(|| Watch::new(&window.path));
        let Some(mut file) = open(&window.path, options.tail).await? else { return };
        let mut line = Vec::new();
        let mut ended = false;
        loop {
            let read = file.reader.read_until(b'\n', &mut line).await?;
            if read > 0 && line.ends_with(b"\n") {
                writer.push(&line);
                line.clear();
                if writer.out.len() >= CHUNK {
                    yield writer.take();
                }
                if writer.left == 0 {
                    break;
                }
                continue;
            }
            if !writer.out.is_empty() {
                yield writer.take();
            }
            let Some(waits) = &mut watch else { break };
            if let Some(newer) = file.replaced(&window.path).await? {
                // Both before it is read: what is written in between wakes.
                *waits = Watch::new(&window.path);
                file = newer;
                line.clear();
                continue;
            }
            if ended {
                break;
            }
            if waits.wait().await == Woken::Changed {
                continue;
            }
            let running = cri.container_status(&window.container_id).await;
            ended = match running {
                Ok(Some(status)) => Stage::from(status.state()) != Stage::Running,
                Ok(None) => true,
                Err(_) => false,
            };
        }
        if !writer.out.is_empty() {
            yield writer.take();
        }
    }
}

struct Open {
    reader: BufReader<tokio::fs::File>,
    inode: u64,
}

impl Open {
    /// The file that took this one's place, if one did and this one is read to its end.
    async fn replaced(&mut self, path: &Path) -> std::io::Result<Option<Self>> {
        match tokio::fs::metadata(path).await {
            Ok(meta) if meta.ino() != self.inode => open(path, None).await,
            _ => Ok(None),
        }
    }
}

async fn open(path: &Path, tail: Option<u64>) -> std::io::Result<Option<Open>> {
    let offset = {
        let path = path.to_owned();
        let measured = tokio::task::spawn_blocking(move || match std::fs::File::open(&path) {
            Ok(mut file) => tail.map_or(Ok(0), |lines| tail_offset(&mut file, lines)).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        });
        match measured.await.map_err(std::io::Error::other)?? {
            Some(offset) => offset,
            None => return Ok(None),
        }
    };
    let mut file = tokio::fs::File::open(path).await?;
    let inode = file.metadata().await?.ino();
    file.seek(SeekFrom::Start(offset)).await?;
    Ok(Some(Open { reader: BufReader::with_capacity(64 << 10, file), inode }))
}

/// Where the last so many lines begin.
fn tail_offset(file: &mut std::fs::File, lines: u64) -> std::io::Result<u64> {
    let end = file.metadata()?.len();
    let mut wanted = lines;
    let mut at = end;
    let mut block = Vec::new();
    while at > 0 {
        let from = at.saturating_sub(BLOCK);
        block.resize(usize::try_from(at - from).unwrap_or_default(), 0);
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block)?;
        for (index, byte) in block.iter().enumerate().rev() {
            let position = from + index as u64;
            // The newline at the very end ends the last line; it begins none.
            if *byte == b'\n' && position + 1 < end {
                if wanted <= 1 {
                    return Ok(if wanted == 0 { end } else { position + 1 });
                }
                wanted -= 1;
            }
        }
        at = from;
    }
    Ok(if lines == 0 { end } else { 0 })
}

/// The end of a log as text: a container's last words when it left no others.
pub fn last_lines(path: &Path, lines: usize, bytes: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let offset = tail_offset(&mut file, lines as u64)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut raw = Vec::new();
        file.read_to_end(&mut raw)?;
        let mut writer = Writer::new(Options::default());
        raw.split_inclusive(|byte| *byte == b'\n').for_each(|line| writer.push(line));
        let text = writer.out;
        Ok(String::from_utf8_lossy(&text[text.len().saturating_sub(bytes)..]).into_owned())
    };
    read().unwrap_or_else(|error| format!("Error on reading termination message from logs: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-01T00:00:01.5Z stdout F one\n2026-01-01T00:00:02Z stderr P tw\n\
                       2026-01-01T00:00:02Z stderr F o\n2026-01-01T00:00:03Z stdout F three x\n";

    fn written(options: Options) -> String {
        let mut writer = Writer::new(options);
        LOG.as_bytes().split_inclusive(|byte| *byte == b'\n').for_each(|line| writer.push(line));
        String::from_utf8(writer.out).unwrap()
    }

    #[test]
    fn lines_are_put_together() {
        assert_eq!(written(Options::default()), "one\ntwo\nthree x\n");
        let stamped = "2026-01-01T00:00:01.5Z one\n2026-01-01T00:00:02Z two\n2026-01-01T00:00:03Z three x\n";
        assert_eq!(written(Options { timestamps: true, ..Options::default() }), stamped);
        assert_eq!(written(Options { stream: Some("stderr"), ..Options::default() }), "two\n");
        assert_eq!(written(Options { limit: Some(6), ..Options::default() }), "one\ntw");
        let since = Some("2026-01-01T00:00:02Z".parse().unwrap());
        assert_eq!(written(Options { since, ..Options::default() }), "two\nthree x\n");
    }

    #[test]
    fn the_last_lines_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        std::fs::write(&path, LOG).unwrap();
        for (lines, text) in [(0, ""), (1, "three x\n"), (2, "o\nthree x\n"), (9, "one\ntwo\nthree x\n")] {
            assert_eq!(last_lines(&path, lines, 100), text, "{lines}");
        }
        assert_eq!(last_lines(&path, 9, 4), "e x\n");
    }

    #[test]
    fn parameters() {
        let parameters = Parameters { tail_lines: Some("x".into()), ..Parameters::default() };
        assert_eq!(Options::of(&parameters).unwrap_err(), "tailLines: Invalid value: \"x\"");
        let parameters =
            Parameters { follow: Some("true".into()), previous: Some("false".into()), ..Parameters::default() };
        assert!(Options::of(&parameters).unwrap().follow && !parameters.previous());
    }
}
