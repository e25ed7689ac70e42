//! Directories that are out to hurt: links, races, special files, huge files, names.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gloveport::job::Access;
use gloveport_tools::HostWorkspace;
use serde_json::{Value, json};

use crate::support::{Bench, snapshot};

/// If this fails, a path from a script reaches a file that was not granted, or tells whether it exists.
#[tokio::test]
async fn e2_e3_nothing_outside_is_reached_or_told_apart() {
    let bench = Bench::new();
    std::fs::create_dir(bench.ws("a")).unwrap();
    let up = "../".repeat(40);
    let outside = bench.outside("secret.txt");
    let absent = bench.outside("absent.txt");
    let paths = [
        "../outside/secret.txt",
        "../outside/absent.txt",
        &format!("{up}etc/passwd"),
        "./a/.././../x",
        "a/../../outside/secret.txt",
    ];
    let absolute = [outside.to_str().unwrap(), absent.to_str().unwrap(), "/etc/passwd", "/etc/absent", "/"];
    let before = snapshot(bench.base.path());
    for path in paths.iter().copied().chain(absolute) {
        let text = format!("Access denied: '{path}' is outside the workspace");
        let calls = [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "x" })),
            ("search_files", json!({ "pattern": "x", "path": path })),
            ("search_files", json!({ "pattern": "*", "path": path, "target": "files" })),
            ("patch", json!({ "path": path, "old_string": "a", "new_string": "b" })),
        ];
        for (tool, args) in calls {
            assert_eq!(bench.call(tool, args.clone()).await["error"], text, "{tool} {args}");
        }
    }
    assert_eq!(snapshot(bench.base.path()), before);
}

#[tokio::test]
async fn e5_links_out_are_refused_and_counted() {
    let bench = Bench::new();
    bench.put("in.txt", "needle\n");
    symlink(bench.outside("secret.txt"), bench.ws("file")).unwrap();
    symlink(bench.outside(""), bench.ws("dir")).unwrap();
    symlink("../outside", bench.ws("rel")).unwrap();
    symlink("rel/secret.txt", bench.ws("chain")).unwrap();
    symlink("loop2", bench.ws("loop1")).unwrap();
    symlink("loop1", bench.ws("loop2")).unwrap();
    symlink("in.txt", bench.ws("inside")).unwrap();
    let before = snapshot(bench.base.path());
    for path in ["file", "dir/secret.txt", "rel/secret.txt", "chain", "rel/new.txt", "dir/new/x"] {
        let text = json!(format!("Access denied: '{path}' is outside the workspace"));
        assert_eq!(bench.call("read_file", json!({ "path": path })).await["error"], text);
        assert_eq!(bench.call("write_file", json!({ "path": path, "content": "x" })).await["error"], text);
        assert_eq!(
            bench.call("patch", json!({ "path": path, "old_string": "outside", "new_string": "b" })).await["error"],
            text
        );
        let patch = json!({ "mode": "patch", "patch": format!("*** Add File: {path}\n+x\n") });
        let answer = bench.call("patch", patch).await["error"].as_str().unwrap().to_owned();
        assert!(answer.ends_with(&format!("Access denied: '{path}' is outside the workspace")), "{answer}");
    }
    let looped = bench.call("read_file", json!({ "path": "loop1" })).await;
    assert_eq!(looped["error"], "Cannot read 'loop1': too many symbolic links");
    assert_eq!(snapshot(bench.base.path()), before);
    let found = bench.call("search_files", json!({ "pattern": "outside|needle" })).await;
    assert_eq!((&found["total_count"], &found["skipped"]), (&json!(1), &json!(4)), "{found}");
    let names = bench.call("search_files", json!({ "pattern": "*", "target": "files" })).await;
    assert_eq!((&names["files"], &names["skipped"]), (&json!(["in.txt"]), &json!(4)));
    assert_eq!(bench.call("read_file", json!({ "path": "inside" })).await["content"], "needle\n");
}

#[tokio::test]
async fn a_guarded_file_is_guarded_through_links() {
    let bench = Bench::new();
    bench.put(".env", "KEY=1\n");
    bench.put(".git/hooks/pre-commit", "#!/bin/sh\n");
    symlink(".env", bench.ws("plain")).unwrap();
    symlink(".git/hooks", bench.ws("hooks")).unwrap();
    assert_eq!(
        bench.call("read_file", json!({ "path": "plain" })).await["error"],
        "Cannot read 'plain': it is a credential file"
    );
    let hook = bench.call("write_file", json!({ "path": "hooks/pre-commit", "content": "x" })).await;
    assert_eq!(hook["error"], "Cannot write 'hooks/pre-commit': it is a git hook or git configuration");
    let delete = bench.call("patch", json!({ "mode": "patch", "patch": "*** Delete File: hooks/pre-commit\n" })).await;
    assert_eq!(
        delete["error"],
        "The patch was not applied, nothing was changed: it is a git hook or git configuration"
    );
    assert_eq!(bench.get(".git/hooks/pre-commit"), "#!/bin/sh\n");
}

#[tokio::test]
async fn e10_special_files_are_refused_at_once() {
    let bench = Bench::new();
    std::process::Command::new("mkfifo").arg(bench.ws("fifo")).status().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.ws("socket")).unwrap();
    let made =
        std::process::Command::new("mknod").arg(bench.ws("null")).args(["c", "1", "5"]).status().unwrap().success();
    std::fs::create_dir(bench.ws("sub")).unwrap();
    symlink("../fifo", bench.ws("sub/link")).unwrap();
    let mut cases = vec![("fifo", "a FIFO"), ("socket", "a socket"), ("sub/link", "a FIFO")];
    if made {
        cases.push(("null", "a device"));
    }
    for (path, what) in cases {
        let began = Instant::now();
        let read = bench.call("read_file", json!({ "path": path })).await;
        assert_eq!(read["error"], format!("Cannot read '{path}': it is {what}, not a regular file"));
        let written = bench.call("write_file", json!({ "path": path, "content": "x" })).await;
        assert_eq!(written["error"], format!("Cannot write '{path}': it is {what}, not a regular file"));
        let patched = bench.call("patch", json!({ "path": path, "old_string": "a", "new_string": "b" })).await;
        assert_eq!(patched["error"], format!("Cannot write '{path}': it is not a regular file"));
        let searched = bench.call("search_files", json!({ "pattern": "x", "path": path })).await;
        assert_eq!(searched["error"], format!("Cannot search '{path}': it is neither a file nor a directory"));
        assert!(began.elapsed() < Duration::from_secs(20), "{path}: {:?} for four calls", began.elapsed());
    }
    let began = Instant::now();
    assert_eq!(bench.call("search_files", json!({ "pattern": "x" })).await["total_count"], 0);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn e11_a_sparse_terabyte_is_answered_without_reading_it() {
    let bench = Bench::new();
    let sparse = |name: &str, head: &str| {
        bench.put(name, head);
        std::fs::File::options().write(true).open(bench.ws(name)).unwrap().set_len(1 << 40).unwrap();
    };
    sparse("empty", "");
    sparse("short", "one\ntwo\n");
    sparse("text", &"line\n".repeat(10_000));
    for name in ["empty", "short", "text"] {
        let began = Instant::now();
        let answer = bench.call("read_file", json!({ "path": name })).await;
        assert!(began.elapsed() < Duration::from_secs(20), "{name}: {:?}", began.elapsed());
        assert_eq!(answer["truncated"], true, "{name}: {answer}");
        assert_eq!(answer["file_size"], 1u64 << 40);
    }
    let text = bench.call("read_file", json!({ "path": "text" })).await;
    assert_eq!(text["content"], "line\n".repeat(500));
    let began = Instant::now();
    let far = bench.call("read_file", json!({ "path": "text", "offset": 20_000 })).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!((&far["content"], &far["truncated"]), (&json!(""), &json!(true)), "{far}");
    let began = Instant::now();
    assert_eq!(
        bench.call("search_files", json!({ "pattern": "line", "limit": 1 })).await["matches"],
        json!([]),
        "binary files have no lines"
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let patched = bench.call("patch", json!({ "path": "text", "old_string": "a", "new_string": "b" })).await;
    assert_eq!(patched["error"], "Cannot edit 'text': it has 1,099,511,627,776 bytes, 64 MiB is the most");
}

#[tokio::test]
async fn e13_names_are_data() {
    let bench = Bench::new();
    let long = "n".repeat(255);
    let names = [
        "a\nb",
        "quote'\"",
        "$(touch pwned)",
        "-rf",
        "*",
        "\u{202e}rtl",
        "bell\u{7}",
        "`id`",
        ";id",
        "sp ace",
        "é",
        &long,
    ];
    for name in names {
        let answer = bench.call("write_file", json!({ "path": name, "content": "needle\n" })).await;
        assert_eq!(answer["bytes_written"], 7, "{name:?}: {answer}");
        assert_eq!(bench.call("read_file", json!({ "path": name })).await["content"], "needle\n", "{name:?}");
        let edited = bench.call("patch", json!({ "path": name, "old_string": "needle", "new_string": "thread" })).await;
        assert_eq!(edited["success"], true, "{name:?}: {edited}");
        let found = bench.call("search_files", json!({ "pattern": "thread", "path": name })).await;
        assert_eq!(found["matches"][0]["path"], name);
    }
    let listed = bench.call("search_files", json!({ "pattern": "*", "target": "files" })).await;
    let mut expected: Vec<&str> = names.to_vec();
    let mut got: Vec<&str> = listed["files"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    expected.sort_unstable();
    got.sort_unstable();
    assert_eq!(got, expected);
    assert!(!bench.ws("pwned").exists());
    let too_long = "n".repeat(256);
    let refused = bench.call("write_file", json!({ "path": too_long, "content": "" })).await;
    assert_eq!(refused["error"], format!("Cannot write '{too_long}': the file name is too long"));
    use std::os::unix::ffi::OsStrExt;
    let raw = std::ffi::OsStr::from_bytes(b"raw\xff.txt");
    std::fs::write(bench.ws("").join(raw), "thread\n").unwrap();
    assert_eq!(
        bench.call("search_files", json!({ "pattern": "thread", "output_mode": "files_only" })).await["total_count"],
        13
    );
}

#[tokio::test]
async fn e15_a_nul_opens_nothing() {
    let bench = Bench::new();
    bench.put("a", "x\n");
    for (tool, args) in [
        ("read_file", json!({ "path": "a\0.png" })),
        ("write_file", json!({ "path": "a\0b", "content": "y" })),
        ("search_files", json!({ "pattern": "x", "path": "a\0" })),
        ("search_files", json!({ "pattern": "x\0" })),
        ("patch", json!({ "path": "a\0", "old_string": "x", "new_string": "y" })),
    ] {
        let text = bench.call(tool, args).await["error"].as_str().unwrap().to_owned();
        assert!(text.ends_with("must not contain a NUL character"), "{tool}: {text}");
    }
    assert_eq!(bench.get("a"), "x\n");
}

#[tokio::test]
async fn a_read_only_grant_is_not_written() {
    let bench = Bench::with(Access::ReadOnly);
    bench.put("a", "x\n");
    let before = snapshot(&bench.ws(""));
    for (tool, args) in [
        ("write_file", json!({ "path": "a", "content": "y" })),
        ("patch", json!({ "path": "a", "old_string": "x", "new_string": "y" })),
    ] {
        assert_eq!(bench.call(tool, args).await["error"], "Cannot write 'a': the workspace is read-only", "{tool}");
    }
    assert_eq!(snapshot(&bench.ws("")), before);
}

#[tokio::test]
async fn a_grant_may_be_spelled_through_a_link() {
    let bench = Bench::new();
    bench.put("a.txt", "x\n");
    let alias = bench.base.path().join("alias");
    symlink(bench.ws(""), &alias).unwrap();
    let workspace = Arc::new(HostWorkspace::builder(&alias).access(Access::ReadWrite).open().unwrap());
    let cx = crate::support::context(Some(workspace));
    for path in [alias.join("a.txt"), bench.ws("a.txt"), alias.join("./b/../a.txt").components().collect()] {
        let answer = crate::support::call(&bench.tools, "read_file", json!({ "path": path }), &cx).await;
        if !path.to_string_lossy().contains("..") {
            assert_eq!(answer["content"], "x\n", "{path:?}: {answer}");
        }
    }
}

/// If this fails, a thread that swaps a directory for a link gets a tool to write outside.
#[tokio::test(flavor = "multi_thread")]
async fn e5_a_swapped_directory_lets_nothing_out() {
    let bench = Arc::new(Bench::new());
    bench.put("d/f.txt", "old\n");
    symlink(bench.outside(""), bench.ws("evil")).unwrap();
    let before = snapshot(&bench.outside(""));
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (bench, stop) = (Arc::clone(&bench), Arc::clone(&stop));
        std::thread::spawn(move || {
            let (dir, evil) = (bench.ws("d"), bench.ws("evil"));
            let mut swaps = 0u32;
            while swaps < 100_000 {
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &dir,
                    rustix::fs::CWD,
                    &evil,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
                swaps += 1;
            }
            stop.store(true, Ordering::Relaxed);
            swaps
        })
    };
    let (mut done, mut refused) = (0, 0);
    // A machine under load may be done with the swaps before there were calls worth the name.
    while !stop.load(Ordering::Relaxed) || done + refused <= 100 {
        let mut count = |answer: Value| if answer.get("error").is_some() { refused += 1 } else { done += 1 };
        count(bench.call("write_file", json!({ "path": "d/f.txt", "content": "new\n" })).await);
        count(bench.call("write_file", json!({ "path": "d/made.txt", "content": "new\n" })).await);
        count(bench.call("patch", json!({ "path": "d/f.txt", "old_string": "new", "new_string": "old" })).await);
        count(bench.call("patch", json!({ "mode": "patch", "patch": "*** Delete File: d/secret.txt\n" })).await);
        let read = bench.call("read_file", json!({ "path": "d/secret.txt" })).await;
        assert_ne!(read["content"], "outside\n");
        let found = bench.call("search_files", json!({ "pattern": "outside" })).await;
        assert_eq!(found["matches"], json!([]));
        let named = bench.call("search_files", json!({ "pattern": "secret", "target": "files" })).await;
        assert_eq!(named["files"], json!([]));
    }
    assert_eq!(swapper.join().unwrap(), 100_000);
    assert_eq!(snapshot(&bench.outside("")), before, "after {done} calls that worked and {refused} that were refused");
    assert!(done + refused > 100, "{done} + {refused}");
}
