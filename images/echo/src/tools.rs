//! What `kubectl exec` can run in an image that holds one program.

use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

/// Runs one of the tools.
pub(crate) fn run(tool: &str, arguments: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match tool {
        "env" => std::env::vars().try_for_each(|(k, v)| writeln!(out, "{k}={v}")),
        "cat" => arguments.iter().try_for_each(|file| out.write_all(&fs::read(file)?)),
        "ls" => list(arguments.first().map_or(".", String::as_str), &mut out),
        "stdin" => io::copy(&mut io::stdin().lock(), &mut out).map(|_| ()),
        "say" => writeln!(out, "{}", arguments.join(" ")),
        "write" => match arguments {
            [file, text] => fs::write(file, text),
            _ => Err(io::Error::other("write FILE TEXT")),
        },
        "sleep" => {
            let seconds = arguments.first().and_then(|s| s.parse().ok()).unwrap_or(3600);
            thread::sleep(Duration::from_secs(seconds));
            Ok(())
        }
        "get" => get(arguments.first().map_or("", String::as_str), &mut out),
        _ => Err(io::Error::other(format!("no tool named {tool}"))),
    }
}

fn list(dir: &str, out: &mut impl Write) -> io::Result<()> {
    let mut names = fs::read_dir(dir)?
        .map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    names.iter().try_for_each(|name| writeln!(out, "{name}"))
}

/// `GET host:port/path` over HTTP/1.0, the whole answer to standard output.
fn get(url: &str, out: &mut impl Write) -> io::Result<()> {
    let (host, path) = url.split_once('/').unwrap_or((url, ""));
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let mut stream = TcpStream::connect(&address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    out.write_all(&answer)
}
