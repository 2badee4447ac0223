//! What the kernel says about this process, as Prometheus' `process_*` metrics.

use std::fmt::Write as _;
use std::sync::OnceLock;

/// Clock ticks a second in /proc; 100 on every Linux that userspace sees.
const TICKS: f64 = 100.0;

/// The metrics as lines of a Prometheus page. What the kernel does not tell is left out.
pub(crate) fn metrics() -> String {
    let mut page = String::new();
    let mut gauge = |name: &str, kind: &str, value: f64| {
        let _ = writeln!(page, "# TYPE {name} {kind}\n{name} {value}");
    };
    if let Some(stat) = stat() {
        gauge("process_cpu_seconds_total", "counter", stat.cpu_seconds);
        gauge("process_start_time_seconds", "gauge", stat.start_seconds);
        gauge("process_virtual_memory_bytes", "gauge", stat.virtual_bytes);
        gauge("process_threads", "gauge", stat.threads);
    }
    if let Some(bytes) = resident_bytes() {
        gauge("process_resident_memory_bytes", "gauge", bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        #[allow(clippy::cast_precision_loss, reason = "a count of files is far below 2^52")]
        gauge("process_open_fds", "gauge", open.count() as f64);
    }
    if let Some(most) = max_files() {
        gauge("process_max_fds", "gauge", most);
    }
    page
}

struct Stat {
    cpu_seconds: f64,
    start_seconds: f64,
    virtual_bytes: f64,
    threads: f64,
}

fn stat() -> Option<Stat> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the command in parentheses and may hold anything, parentheses too.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| -> Option<f64> { fields.get(number - 3)?.parse().ok() };
    Some(Stat {
        cpu_seconds: (field(14)? + field(15)?) / TICKS,
        start_seconds: boot_time()? + field(22)? / TICKS,
        virtual_bytes: field(23)?,
        threads: field(20)?,
    })
}

fn boot_time() -> Option<f64> {
    static BOOT: OnceLock<Option<f64>> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
    })
}

fn resident_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: f64 =
        text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn max_files() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    text.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_answers() {
        let page = super::metrics();
        for name in
            ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_threads"]
        {
            assert!(page.contains(&format!("\n{name} ")), "{name} in {page}");
        }
    }
}
