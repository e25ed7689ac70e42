//! System calls that need more than wasmtime's own implementation: budgets of disk, entries and descriptors, special files, any exit code,
//! and all that could leave a trace in a directory.
//!
//! Each function here checks, then hands the same arguments to wasmtime's implementation, which does the work and owns path resolution.

use wasmtime::{Caller, Linker, Memory, Result};
use wasmtime_wasi::p1::types::{Fd, Filetype, Lookupflags};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1 as _};
use wiggle::{GuestMemory, GuestPtr};

use super::guest::{Guest, ProcessExit, ProtocolViolation};

const MODULE: &str = "wasi_snapshot_preview1";
const SUCCESS: i32 = 0;
const EACCES: i32 = 2;
const EBADF: i32 = 8;
const EINVAL: i32 = 28;
const EMFILE: i32 = 33;
const ENOSPC: i32 = 51;
/// `O_CREAT` of `path_open`.
const OFLAG_CREAT: i32 = 1;
/// Standard descriptors: their bytes are output, not files.
const STDERR: i32 = 2;
/// Host bytes that one system call may copy. A file write of 10 MB must fit (CPython writes in one call).
pub(super) const HOSTCALL_BYTES: usize = 64 << 20;
/// Vectors that one write may have; CPython uses one.
const MAX_VECTORS: u32 = 1_024;

/// Replaces the functions of preview 1 that need checks.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> Result<()> {
    linker.func_wrap(MODULE, "proc_exit", |code: i32| -> Result<()> { Err(ProcessExit(code).into()) })?;
    linker.func_wrap(MODULE, "random_get", random_get)?;
    linker.func_wrap_async(MODULE, "path_open", |caller, args: PathOpen| Box::new(path_open(caller, args)))?;
    linker.func_wrap_async(MODULE, "fd_close", |caller, (fd,): (i32,)| Box::new(fd_close(caller, fd)))?;
    linker.func_wrap_async(MODULE, "fd_renumber", |caller, (from, to): (i32, i32)| {
        Box::new(fd_renumber(caller, from, to))
    })?;
    linker
        .func_wrap_async(MODULE, "fd_write", |caller, args: (i32, i32, i32, i32)| Box::new(fd_write(caller, args)))?;
    linker.func_wrap_async(MODULE, "fd_pwrite", |caller, args: (i32, i32, i32, i64, i32)| {
        Box::new(fd_pwrite(caller, args))
    })?;
    linker.func_wrap(MODULE, "fd_allocate", fd_allocate)?;
    linker.func_wrap_async(MODULE, "path_create_directory", |caller, args: (i32, i32, i32)| {
        Box::new(path_create_directory(caller, args))
    })?;
    linker.func_wrap_async(MODULE, "path_symlink", |caller, args: (i32, i32, i32, i32, i32)| {
        Box::new(path_symlink(caller, args))
    })?;
    linker.func_wrap_async(MODULE, "path_link", |caller, args: (i32, i32, i32, i32, i32, i32, i32)| {
        Box::new(path_link(caller, args))
    })?;
    linker.func_wrap_async(MODULE, "path_unlink_file", |caller, args: (i32, i32, i32)| {
        Box::new(path_unlink_file(caller, args))
    })?;
    linker.func_wrap_async(MODULE, "path_remove_directory", |caller, args: (i32, i32, i32)| {
        Box::new(path_remove_directory(caller, args))
    })?;
    linker.func_wrap_async(MODULE, "path_rename", |caller, args: (i32, i32, i32, i32, i32, i32)| {
        Box::new(path_rename(caller, args))
    })?;
    linker.func_wrap_async(
        MODULE,
        "path_filestat_set_times",
        |caller, args: (i32, i32, i32, i32, i64, i64, i32)| Box::new(path_filestat_set_times(caller, args)),
    )?;
    linker.func_wrap_async(MODULE, "fd_filestat_set_times", |caller, args: (i32, i64, i64, i32)| {
        Box::new(fd_filestat_set_times(caller, args))
    })?;
    linker.func_wrap_async(MODULE, "fd_readdir", |caller, args: (i32, i32, i32, i64, i32)| {
        Box::new(fd_readdir(caller, args))
    })?;
    Ok(())
}

type PathOpen = (i32, i32, i32, i32, i32, i64, i64, i32, i32);

/// The instance's memory and the host's data, borrowed side by side.
fn split<'a>(caller: &'a mut Caller<'_, Guest>) -> Result<(GuestMemory<'a>, &'a mut Guest)> {
    let memory = memory(caller)?;
    let (data, guest) = memory.data_and_store_mut(caller);
    // What one call may copy on the host, renewed for each as wasmtime's own linker does.
    guest.wasi.set_hostcall_fuel(HOSTCALL_BYTES);
    guest.used_files = true;
    Ok((GuestMemory::Unshared(data), guest))
}

fn memory(caller: &Caller<'_, Guest>) -> Result<Memory> {
    caller.data().memory.ok_or_else(|| ProtocolViolation("system call before the instance was ready").into())
}

/// Fills guest memory from the system's generator, with no copy on the host.
fn random_get(mut caller: Caller<'_, Guest>, start: u32, len: u32) -> Result<i32> {
    let memory = memory(&caller)?;
    let end = start as usize + len as usize;
    let Some(mut buffer) = memory.data_mut(&mut caller).get_mut(start as usize..end) else {
        return Err(ProtocolViolation("random bytes outside the memory").into());
    };
    while !buffer.is_empty() {
        match rustix::rand::getrandom(&mut *buffer, rustix::rand::GetRandomFlags::empty()) {
            Ok(filled) => buffer = buffer.split_at_mut(filled).1,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(wasmtime::Error::from(error)),
        }
    }
    Ok(SUCCESS)
}

async fn path_open(mut caller: Caller<'_, Guest>, args: PathOpen) -> Result<i32> {
    let (dir, lookup, path, path_len, oflags, base, inheriting, fdflags, out) = args;
    let creates = oflags & OFLAG_CREAT != 0;
    let (mut memory, guest) = split(&mut caller)?;
    if !guest.files.may_open() {
        return Ok(EMFILE);
    }
    let existing = file_type(&mut memory, guest, dir, lookup, path, path_len).await;
    match existing {
        // Opening a FIFO waits for its other end, and devices act when opened.
        Some(Filetype::RegularFile | Filetype::Directory | Filetype::SymbolicLink) => {}
        Some(_) => return Ok(EACCES),
        None if creates && !guest.files.may_create() => return Ok(ENOSPC),
        None => {}
    }
    let wasi = &mut guest.wasi;
    let errno =
        p1::path_open(wasi, &mut memory, dir, lookup, path, path_len, oflags, base, inheriting, fdflags, out).await?;
    if errno == SUCCESS {
        let fd = memory.read(GuestPtr::<u32>::new(out.cast_unsigned()))?;
        guest.files.opened(fd);
        if creates && existing.is_none() {
            guest.files.created();
        }
    }
    Ok(errno)
}

/// What stands at a path; `None` when nothing does, or when it can't be seen, which the call itself will say better.
async fn file_type(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    dir: i32,
    lookup: i32,
    path: i32,
    path_len: i32,
) -> Option<Filetype> {
    let lookup = Lookupflags::from_bits(lookup.cast_unsigned())?;
    let path = GuestPtr::<str>::new((path.cast_unsigned(), path_len.cast_unsigned()));
    let dir = Fd::from(dir.cast_unsigned());
    guest.wasi.path_filestat_get(memory, dir, lookup, path).await.ok().map(|stat| stat.filetype)
}

async fn fd_close(mut caller: Caller<'_, Guest>, fd: i32) -> Result<i32> {
    // Standard descriptors stay what they are: a file that took such a number would be written to as if it were output, past the budget.
    if is_standard(fd) {
        return Ok(SUCCESS);
    }
    let (mut memory, guest) = split(&mut caller)?;
    let errno = p1::fd_close(&mut guest.wasi, &mut memory, fd).await?;
    if errno == SUCCESS {
        guest.files.closed(fd.cast_unsigned());
    }
    Ok(errno)
}

async fn fd_renumber(mut caller: Caller<'_, Guest>, from: i32, to: i32) -> Result<i32> {
    if is_standard(from) || is_standard(to) {
        return Ok(EBADF);
    }
    let (mut memory, guest) = split(&mut caller)?;
    let errno = p1::fd_renumber(&mut guest.wasi, &mut memory, from, to).await?;
    if errno == SUCCESS && from != to {
        guest.files.closed(from.cast_unsigned());
        guest.files.opened(to.cast_unsigned());
    }
    Ok(errno)
}

async fn fd_write(mut caller: Caller<'_, Guest>, (fd, vectors, count, out): (i32, i32, i32, i32)) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    if let Some(errno) = charge_vectors(&memory, guest, fd, vectors, count)? {
        return Ok(errno);
    }
    p1::fd_write(&mut guest.wasi, &mut memory, fd, vectors, count, out).await
}

async fn fd_pwrite(
    mut caller: Caller<'_, Guest>,
    (fd, vectors, count, offset, out): (i32, i32, i32, i64, i32),
) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    if let Some(errno) = charge_vectors(&memory, guest, fd, vectors, count)? {
        return Ok(errno);
    }
    p1::fd_pwrite(&mut guest.wasi, &mut memory, fd, vectors, count, offset, out).await
}

fn is_standard(fd: i32) -> bool {
    (0..=STDERR).contains(&fd)
}

/// Takes the bytes of a write to a file from the budget; `Some` is the error that the guest gets instead.
fn charge_vectors(
    memory: &GuestMemory<'_>,
    guest: &mut Guest,
    fd: i32,
    vectors: i32,
    count: i32,
) -> Result<Option<i32>> {
    let count = count.cast_unsigned();
    if count > MAX_VECTORS {
        return Ok(Some(EINVAL));
    }
    if is_standard(fd) {
        return Ok(None);
    }
    let mut bytes = 0_u64;
    for i in 0..count {
        // A vector is an address and a length, four bytes each.
        let at = vectors.cast_unsigned().checked_add(i * 8 + 4);
        let Some(at) = at else { return Ok(Some(EINVAL)) };
        bytes += u64::from(memory.read(GuestPtr::<u32>::new(at))?);
    }
    Ok((!guest.files.take_bytes(bytes)).then_some(ENOSPC))
}

fn fd_allocate(mut caller: Caller<'_, Guest>, fd: i32, offset: i64, len: i64) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    if !guest.files.take_bytes(len.cast_unsigned()) {
        return Ok(ENOSPC);
    }
    p1::fd_allocate(&mut guest.wasi, &mut memory, fd, offset, len)
}

async fn path_create_directory(mut caller: Caller<'_, Guest>, (dir, path, len): (i32, i32, i32)) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    if !guest.files.may_create() {
        return Ok(ENOSPC);
    }
    let errno = p1::path_create_directory(&mut guest.wasi, &mut memory, dir, path, len).await?;
    count_created(guest, errno);
    Ok(errno)
}

async fn path_symlink(mut caller: Caller<'_, Guest>, args: (i32, i32, i32, i32, i32)) -> Result<i32> {
    let (target, target_len, dir, path, len) = args;
    let (mut memory, guest) = split(&mut caller)?;
    if !guest.files.may_create() {
        return Ok(ENOSPC);
    }
    let errno = p1::path_symlink(&mut guest.wasi, &mut memory, target, target_len, dir, path, len).await?;
    count_created(guest, errno);
    Ok(errno)
}

async fn path_link(mut caller: Caller<'_, Guest>, args: (i32, i32, i32, i32, i32, i32, i32)) -> Result<i32> {
    let (from_dir, lookup, from, from_len, to_dir, to, to_len) = args;
    let (mut memory, guest) = split(&mut caller)?;
    if !guest.files.may_create() {
        return Ok(ENOSPC);
    }
    let wasi = &mut guest.wasi;
    let errno = p1::path_link(wasi, &mut memory, from_dir, lookup, from, from_len, to_dir, to, to_len).await?;
    count_created(guest, errno);
    Ok(errno)
}

async fn path_unlink_file(mut caller: Caller<'_, Guest>, (dir, path, len): (i32, i32, i32)) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    let errno = p1::path_unlink_file(&mut guest.wasi, &mut memory, dir, path, len).await?;
    if errno == SUCCESS {
        guest.files.removed();
    }
    Ok(errno)
}

async fn path_remove_directory(mut caller: Caller<'_, Guest>, (dir, path, len): (i32, i32, i32)) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    let errno = p1::path_remove_directory(&mut guest.wasi, &mut memory, dir, path, len).await?;
    if errno == SUCCESS {
        guest.files.removed();
    }
    Ok(errno)
}

async fn path_rename(mut caller: Caller<'_, Guest>, args: (i32, i32, i32, i32, i32, i32)) -> Result<i32> {
    let (from_dir, from, from_len, to_dir, to, to_len) = args;
    let (mut memory, guest) = split(&mut caller)?;
    p1::path_rename(&mut guest.wasi, &mut memory, from_dir, from, from_len, to_dir, to, to_len).await
}

async fn path_filestat_set_times(
    mut caller: Caller<'_, Guest>,
    (dir, lookup, path, len, accessed, modified, flags): (i32, i32, i32, i32, i64, i64, i32),
) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    let wasi = &mut guest.wasi;
    p1::path_filestat_set_times(wasi, &mut memory, dir, lookup, path, len, accessed, modified, flags).await
}

async fn fd_filestat_set_times(
    mut caller: Caller<'_, Guest>,
    (fd, accessed, modified, flags): (i32, i64, i64, i32),
) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    p1::fd_filestat_set_times(&mut guest.wasi, &mut memory, fd, accessed, modified, flags).await
}

/// Listing a directory sets the time of its last access.
async fn fd_readdir(
    mut caller: Caller<'_, Guest>,
    (fd, buffer, len, cookie, out): (i32, i32, i32, i64, i32),
) -> Result<i32> {
    let (mut memory, guest) = split(&mut caller)?;
    p1::fd_readdir(&mut guest.wasi, &mut memory, fd, buffer, len, cookie, out).await
}

fn count_created(guest: &mut Guest, errno: i32) {
    if errno == SUCCESS {
        guest.files.created();
    }
}
