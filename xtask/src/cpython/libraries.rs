//! The C libraries that CPython's modules zlib, bz2, lzma and sqlite3 need, as static archives.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::sources::Sources;
use super::toolchain::Toolchain;
use super::{Layout, execute};

const ZLIB_FILES: [&str; 11] = [
    "adler32", "compress", "crc32", "deflate", "infback", "inffast", "inflate", "inftrees", "trees", "uncompr", "zutil",
];

const BZIP2_FILES: [&str; 7] = ["blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib"];

/// Parts of the names of liblzma's files that are left out: threads, generators of tables, and small-code variants.
const LZMA_EXCLUDED: [&str; 5] = ["_mt", "outqueue", "hardware", "tablegen", "small"];

/// Folders of liblzma that its files include from, relative to `xz/src`.
const LZMA_INCLUDES: [&str; 9] = [
    "liblzma/api",
    "liblzma/lzma",
    "liblzma/lz",
    "liblzma/check",
    "liblzma/simple",
    "liblzma/delta",
    "liblzma/common",
    "liblzma/rangecoder",
    "common",
];

/// WASI has no threads, shared memory or dynamic loading; the rest makes SQLite as capable as a usual one.
const SQLITE_FLAGS: [&str; 10] = [
    "-DSQLITE_OS_UNIX=1",
    "-DSQLITE_THREADSAFE=0",
    "-DSQLITE_OMIT_LOAD_EXTENSION",
    "-DSQLITE_OMIT_WAL",
    "-DSQLITE_MAX_MMAP_SIZE=0",
    "-DSQLITE_DISABLE_LFS",
    "-DSQLITE_DEFAULT_MEMSTATUS=0",
    "-DSQLITE_ENABLE_FTS5",
    "-DSQLITE_ENABLE_MATH_FUNCTIONS",
    "-DHAVE_LSTAT=1",
];

/// Builds the four libraries into the sysroot.
pub(crate) fn build(layout: &Layout, sources: &Sources, toolchain: &Toolchain) -> Result<()> {
    for library in [zlib(sources), bzip2(sources), liblzma(sources)?, sqlite(sources)] {
        library.build(layout, toolchain)?;
    }
    Ok(())
}

struct Library {
    /// `z` for `libz.a`.
    name: &'static str,
    files: Vec<PathBuf>,
    flags: Vec<OsString>,
    /// Headers and folders of headers that go to the sysroot.
    headers: Vec<PathBuf>,
}

impl Library {
    fn build(&self, layout: &Layout, toolchain: &Toolchain) -> Result<()> {
        let mut objects = Vec::new();
        for file in &self.files {
            let stem = file.file_stem().context("a source file has no name")?.to_string_lossy();
            let object = layout.objects.join(format!("{}_{stem}.o", self.name));
            execute(toolchain.compile().args(&self.flags).arg(file).arg("-o").arg(&object))?;
            objects.push(object);
        }
        let archive = layout.sysroot.join(format!("lib/lib{}.a", self.name));
        execute(toolchain.ar().arg("rcsD").arg(archive).args(&objects))?;
        for header in &self.headers {
            copy(header, &layout.sysroot.join("include"))?;
        }
        Ok(())
    }
}

fn zlib(sources: &Sources) -> Library {
    let root = &sources.zlib;
    Library {
        name: "z",
        files: ZLIB_FILES.iter().map(|name| root.join(format!("{name}.c"))).collect(),
        flags: Vec::new(),
        headers: vec![root.join("zlib.h"), root.join("zconf.h")],
    }
}

fn bzip2(sources: &Sources) -> Library {
    let root = &sources.bzip2;
    Library {
        name: "bz2",
        files: BZIP2_FILES.iter().map(|name| root.join(format!("{name}.c"))).collect(),
        flags: Vec::new(),
        headers: vec![root.join("bzlib.h")],
    }
}

fn liblzma(sources: &Sources) -> Result<Library> {
    let root = sources.liblzma.join("xz/src");
    let mut files = Vec::new();
    collect_c_files(&root.join("liblzma"), &mut files)?;
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        !LZMA_EXCLUDED.iter().any(|part| name.contains(part))
    });
    files.sort();
    let mut flags = vec![OsString::from("-DHAVE_CONFIG_H=1")];
    // The crate's own folder holds config.h.
    for folder in LZMA_INCLUDES.iter().map(|folder| root.join(folder)).chain([sources.liblzma.clone()]) {
        flags.push("-I".into());
        flags.push(folder.into());
    }
    let headers = vec![root.join("liblzma/api/lzma.h"), root.join("liblzma/api/lzma")];
    Ok(Library { name: "lzma", files, flags, headers })
}

fn sqlite(sources: &Sources) -> Library {
    let root = &sources.sqlite;
    Library {
        name: "sqlite3",
        files: vec![root.join("sqlite3.c")],
        flags: SQLITE_FLAGS.iter().map(OsString::from).collect(),
        headers: vec![root.join("sqlite3.h"), root.join("sqlite3ext.h")],
    }
}

fn collect_c_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect_c_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    Ok(())
}

/// Copies a file or a flat folder into `target`.
fn copy(source: &Path, target: &Path) -> Result<()> {
    let name = source.file_name().context("a header has no name")?;
    let target = target.join(name);
    if !source.is_dir() {
        std::fs::copy(source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
        return Ok(());
    }
    std::fs::create_dir_all(&target)?;
    for entry in std::fs::read_dir(source)? {
        copy(&entry?.path(), &target)?;
    }
    Ok(())
}
