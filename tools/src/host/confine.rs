//! Confines the calling thread, and with it every process that it starts, to the workspace: Landlock for files, seccomp for sockets.
//!
//! Both are inherited and can't be taken back, so the thread must be one of its own that ends after the start.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use gloveport::job::Access;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// What the kernel must be able to enforce: reading, writing, moving between directories, truncating.
const REQUIRED: ABI = ABI::V3;
/// What is enforced on top where the kernel can: device ioctls, TCP, signals, abstract sockets.
const WANTED: ABI = ABI::V6;

/// Directories of the system that programs are made of.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];
/// Files that nearly every program reads at its start.
const SYSTEM_FILES: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.alias",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/os-release",
];
/// Devices without state.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What a confined command may reach.
pub(crate) struct Reach<'a> {
    /// The root of the workspace.
    pub(crate) root: BorrowedFd<'a>,
    /// What may be done there.
    pub(crate) access: Access,
    /// Directories to read and execute from.
    pub(crate) readable: &'a [PathBuf],
    /// A private directory for temporary files.
    pub(crate) scratch: &'a Path,
}

/// Confines the calling thread for good. On an error it may be confined in part, and must not start anything.
pub(crate) fn confine_thread(reach: &Reach<'_>) -> Result<(), String> {
    restrict_files(reach).map_err(|error| format!("this kernel can't confine commands with Landlock: {error}"))?;
    let filter = socket_filter().map_err(|error| format!("commands can't be confined with seccomp: {error}"))?;
    seccompiler::apply_filter(&filter)
        .map_err(|error| format!("this kernel can't confine commands with seccomp: {error}"))
}

fn restrict_files(reach: &Reach<'_>) -> Result<(), String> {
    let built = || -> Result<landlock::RestrictionStatus, landlock::RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(WANTED))?
            .handle_access(AccessNet::from_all(WANTED))?
            .scope(Scope::from_all(WANTED))?
            .create()?;
        let read = AccessFs::from_read(WANTED);
        let work = if reach.access == Access::ReadWrite { AccessFs::from_all(WANTED) } else { read };
        let mut ruleset = ruleset.add_rule(PathBeneath::new(reach.root.as_fd(), work))?;
        for path in SYSTEM.iter().map(Path::new).chain(reach.readable.iter().map(PathBuf::as_path)) {
            ruleset = allow(ruleset, path, read)?;
        }
        for path in SYSTEM_FILES.iter().map(Path::new) {
            ruleset = allow(ruleset, path, AccessFs::ReadFile | AccessFs::ReadDir)?;
        }
        for path in DEVICES.iter().map(Path::new) {
            ruleset = allow(ruleset, path, AccessFs::ReadFile | AccessFs::WriteFile)?;
        }
        allow(ruleset, reach.scratch, AccessFs::from_all(WANTED))?.restrict_self()
    };
    let status = built().map_err(|error| error.to_string())?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err("it is not enabled".into());
    }
    Ok(())
}

/// Allows what is below a path. One that is not there needs no rule.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(handle) = PathFd::new(path) else { return Ok(ruleset) };
    let is_dir = rustix::fs::fstat(&handle).is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_dir());
    let access = if is_dir { access } else { access & AccessFs::from_file(WANTED) };
    ruleset.add_rule(PathBeneath::new(handle, access))
}

/// No sockets but pairs within the command, and none of the calls that reach into other processes or make new name spaces.
/// Landlock alone leaves UDP and the sockets of services (a container engine, an agent) open.
fn socket_filter() -> Result<BpfProgram, String> {
    let mut rules = BTreeMap::new();
    for call in DENIED {
        rules.insert(*call, Vec::new());
    }
    let not_unix =
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, libc::AF_UNIX.unsigned_abs().into());
    let pairs = SeccompRule::new(vec![not_unix.map_err(|e| e.to_string())?]).map_err(|e| e.to_string())?;
    rules.insert(libc::SYS_socketpair, vec![pairs]);
    #[cfg(target_arch = "x86_64")]
    {
        // The same calls through the x32 entry points have other numbers.
        const X32: i64 = 0x4000_0000;
        let twins: Vec<_> = rules.iter().map(|(call, rule)| (call | X32, rule.clone())).collect();
        rules.extend(twins);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| e.to_string())?;
    let denied = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch).map_err(|e| e.to_string())?;
    BpfProgram::try_from(filter).map_err(|e| e.to_string())
}

const DENIED: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
];
