//! Is the node short of something? By the thresholds that it was given. What was short stays so for a while after it is
//! not any more, so that neither the condition nor the taint that follows it comes and goes with every look.

use super::machine::meminfo;
use crate::thresholds::Thresholds;
use std::path::Path;
use std::time::{Duration, Instant};

/// What the node may be short of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pressure {
    pub(super) memory: bool,
    pub(super) disk: bool,
    pub(super) pids: bool,
}

/// When each was seen last.
#[derive(Debug, Default)]
pub(super) struct Pressures([Option<Instant>; 3]);

impl Pressures {
    /// What is told, of what is now: a pressure ends when it was not seen for the period.
    pub(super) fn told(&mut self, seen: Pressure, period: Duration, now: Instant) -> Pressure {
        let mut told = [seen.memory, seen.disk, seen.pids];
        for (is, last) in told.iter_mut().zip(&mut self.0) {
            if *is {
                *last = Some(now);
            }
            *is = last.is_some_and(|last| now.saturating_duration_since(last) < period || last == now);
        }
        let [memory, disk, pids] = told;
        Pressure { memory, disk, pids }
    }
}

/// A look at the machine.
pub(super) fn look(root_dir: &Path, thresholds: &Thresholds) -> Pressure {
    Pressure {
        memory: memory_is_scarce(thresholds),
        disk: disk_is_full(root_dir, thresholds),
        pids: pids().is_some_and(|(left, most)| thresholds.is_crossed("pid.available", left, most)),
    }
}

fn memory_is_scarce(thresholds: &Thresholds) -> bool {
    let read = |name| meminfo(name).ok().and_then(|bytes| u64::try_from(bytes).ok());
    let (available, total) = (read("MemAvailable"), read("MemTotal"));
    available.zip(total).is_some_and(|(available, total)| thresholds.is_crossed("memory.available", available, total))
}

fn disk_is_full(dir: &Path, thresholds: &Thresholds) -> bool {
    let Ok(stat) = nix::sys::statvfs::statvfs(dir) else { return false };
    thresholds.is_crossed(
        "nodefs.available",
        stat.blocks_available() * stat.fragment_size(),
        stat.blocks() * stat.fragment_size(),
    ) || (stat.files() > 0 && thresholds.is_crossed("nodefs.inodesFree", stat.files_available(), stat.files()))
}

/// How many more processes there may be, and how many in all.
fn pids() -> Option<(u64, u64)> {
    let read = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let most = [read("/proc/sys/kernel/pid_max"), read("/proc/sys/kernel/threads-max")].into_iter().flatten().min()?;
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let now = load.split(' ').nth(3)?.split_once('/')?.1.parse::<u64>().ok()?;
    Some((most.saturating_sub(now), most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pressure_ends_when_it_was_not_seen_for_a_while() {
        let (mut pressures, start, period) = (Pressures::default(), Instant::now(), Duration::from_secs(300));
        let (none, disk) = (Pressure::default(), Pressure { disk: true, ..Pressure::default() });
        let mut told = |seen, seconds| pressures.told(seen, period, start + Duration::from_secs(seconds));
        assert_eq!(told(none, 0), none);
        assert_eq!(told(disk, 10), disk);
        assert_eq!(told(none, 20), disk, "it was there a moment ago");
        assert_eq!(told(disk, 200), disk);
        assert_eq!(told(none, 499), disk);
        assert_eq!(told(none, 500), none);
    }

    #[test]
    fn processes_are_scarce_only_by_a_threshold() {
        let look = |text| look(Path::new("/"), &Thresholds::parse(text).unwrap()).pids;
        assert!(look("pid.available<100%"), "some run always");
        assert!(!look("pid.available<0%") && !look("memory.available<0%"));
    }
}
