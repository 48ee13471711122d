//! What the process may use of the machine: processors and memory, as control groups and affinity leave them.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use super::amounts::ByteSize;

/// Processors this process may use; respects affinity and the quota of its control group. At least 1.
pub fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Event loops for `n` processors: `min(2n, max(8, n/2))`.
// Fewer loops on a large machine, since each then finds more work a turn, sleeps less and is woken less often.
pub fn default_io_threads(processors: NonZeroUsize) -> NonZeroUsize {
    let n = processors.get();
    let threads = n.saturating_mul(2).min((n / 2).max(8));
    NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN)
}

/// Event loops at most that are given work. A loop never waits for anything but work, so one per processor is enough; each further one
/// only adds turns and hand-overs.
pub fn most_working_loops(processors: NonZeroUsize) -> NonZeroUsize {
    processors
}

/// Memory this process may use: the lowest limit of its control groups, or what the machine has.
pub fn memory_limit() -> ByteSize {
    memory_limit_below(Path::new("/")).unwrap_or(ByteSize::mib(1024))
}

/// The name this machine gives itself.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

fn memory_limit_below(root: &Path) -> Option<ByteSize> {
    let physical = physical_memory(&fs::read_to_string(root.join("proc/meminfo")).ok()?)?;
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limit = groups.lines().filter_map(|line| group_limit(root, line)).min();
    Some(ByteSize::bytes(limit.map_or(physical, |limit| limit.min(physical))))
}

fn physical_memory(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The lowest limit on the way from a process's group up to the root; `line` is one of /proc/self/cgroup.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (mount, file) = if controllers.is_empty() {
        (root.join("sys/fs/cgroup"), "memory.max")
    } else if controllers.split(',').any(|name| name == "memory") {
        (root.join("sys/fs/cgroup/memory"), "memory.limit_in_bytes")
    } else {
        return None;
    };
    let below = Path::new(path.trim_start_matches('/'));
    // Inside a container the path may not exist below the mount; its root then carries the limit.
    below.ancestors().filter_map(|group| fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(n: usize) -> usize {
        default_io_threads(NonZeroUsize::new(n).expect("not zero")).get()
    }

    #[test]
    fn io_threads_follow_the_published_table() {
        let table = [(1, 2), (2, 4), (3, 6), (4, 8), (5, 8), (7, 8), (8, 8), (16, 8), (17, 8), (18, 9), (32, 16), (64, 32), (128, 64)];
        for (processors, expected) in table {
            assert_eq!(threads(processors), expected, "{processors} processors");
        }
    }

    #[test]
    fn io_threads_follow_the_formula_from_1_to_128_processors() {
        for n in 1..=128 {
            let expected = if n <= 4 {
                2 * n
            } else if n < 18 {
                8
            } else {
                n / 2
            };
            assert_eq!(threads(n), expected, "{n} processors");
        }
    }

    fn machine(files: &[(&str, &str)]) -> Option<ByteSize> {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            fs::write(path, text).expect("written");
        }
        memory_limit_below(root.path())
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");

    #[test]
    fn memory_is_what_the_machine_has_without_a_group_limit() {
        assert_eq!(machine(&[MEMINFO]), Some(ByteSize::mib(8192)));
        assert_eq!(
            machine(&[MEMINFO, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")]),
            Some(ByteSize::mib(8192))
        );
    }

    #[test]
    fn the_lowest_limit_of_nested_groups_counts() {
        let limits = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "536870912\n"),
            ("sys/fs/cgroup/a/b/memory.max", "1073741824\n"),
        ];
        assert_eq!(machine(&limits), Some(ByteSize::mib(512)));
    }

    #[test]
    fn the_older_control_groups_are_read_too() {
        let limits =
            [MEMINFO, ("proc/self/cgroup", "3:cpu:/x\n4:memory:/x\n"), ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "268435456\n")];
        assert_eq!(machine(&limits), Some(ByteSize::mib(256)));
    }

    #[test]
    fn a_container_that_sees_only_its_own_group_finds_the_limit_at_the_root() {
        let limits = [MEMINFO, ("proc/self/cgroup", "0::/system.slice/x\n"), ("sys/fs/cgroup/memory.max", "268435456\n")];
        assert_eq!(machine(&limits), Some(ByteSize::mib(256)));
    }
}
