//! Whose a container is: the process that made it, told apart from any later one of the same number.

use std::path::Path;

/// `boot:pid:start`: which boot of the machine, which process, and when that started. `None` where there is no `/proc`.
pub(super) fn mine() -> Option<String> {
    let pid = std::process::id();
    Some(format!("{}:{pid}:{}", boot()?, started(pid)?))
}

/// Whether an owner is of this machine and no longer there. One of another machine is nobody's to judge here.
pub(super) fn is_dead(owner: &str) -> bool {
    let mut parts = owner.split(':');
    let (Some(of_boot), Some(pid), Some(start)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Ok(pid) = pid.parse() else { return false };
    boot().is_some_and(|boot| boot == of_boot) && started(pid).is_none_or(|now| now != start)
}

fn boot() -> Option<String> {
    read("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// Ticks since boot when a process started: field 22, counted behind the parenthesis that ends the name.
fn started(pid: u32) -> Option<String> {
    let stat = read(format!("/proc/{pid}/stat"))?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

#[expect(clippy::disallowed_methods, reason = "the kernel's own files")]
fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners() {
        let mine = mine().unwrap();
        assert!(!is_dead(&mine));
        let (front, start) = mine.rsplit_once(':').unwrap();
        assert!(is_dead(&format!("{front}:{start}9")), "a later process of the same number");
        let boot = mine.split(':').next().unwrap();
        assert!(is_dead(&format!("{boot}:4194999:1")), "no such process");
        assert!(!is_dead("another-boot:4194999:1"));
        assert!(!is_dead("") && !is_dead("a:b:c"));
    }
}
