//! `read_file`, `write_file`, `search_files`: every row of the tools' description.

use serde_json::{Value, json};

use crate::support::Bench;

#[tokio::test]
async fn read_file_gives_the_files_own_text() {
    let bench = Bench::new();
    bench.put("a.txt", "one\ntwo\nthree");
    let whole = json!({ "content": "one\ntwo\nthree", "total_lines": 3, "file_size": 13, "truncated": false });
    assert_eq!(bench.call("read_file", json!({ "path": "a.txt" })).await, whole);
    assert_eq!(bench.call("read_file", json!({ "path": "a.txt" })).await, whole, "the second read is the same");
    let part = bench.call("read_file", json!({ "path": "a.txt", "offset": 2, "limit": 1 })).await;
    assert_eq!(
        part,
        json!({
            "content": "two\n", "total_lines": 3, "file_size": 13, "truncated": true,
            "hint": "Showing lines 2-2 of 3. Use offset=3 to read on (limit is 1, 2000 at most)."
        })
    );
    let absolute = bench.ws("a.txt");
    assert_eq!(bench.call("read_file", json!({ "path": absolute })).await, whole);
}

#[tokio::test]
async fn read_file_cuts_long_lines_and_says_so() {
    let bench = Bench::new();
    bench.put("long.txt", format!("{}\nshort\n", "é".repeat(2_001)));
    let answer = bench.call("read_file", json!({ "path": "long.txt" })).await;
    assert_eq!(answer["content"], format!("{}... [truncated]\nshort\n", "é".repeat(2_000)));
    assert_eq!(answer["truncated"], true);
    assert_eq!(answer["hint"], "1 line(s) longer than 2000 characters were cut.");
}

#[tokio::test]
async fn read_file_over_the_cap_is_an_error_with_the_size() {
    let bench = Bench::new();
    bench.put("big.txt", format!("{}\n", "x".repeat(999)).repeat(150));
    let answer = bench.call("read_file", json!({ "path": "big.txt" })).await;
    assert_eq!(
        answer,
        json!({
            "error": "Cannot read 'big.txt': the requested lines hold more than 100,000 characters (the file has 150 lines and \
                150,000 bytes). Use a smaller limit.",
            "path": "big.txt", "total_lines": 150, "file_size": 150_000
        })
    );
    let fewer = bench.call("read_file", json!({ "path": "big.txt", "limit": 100 })).await;
    assert_eq!(fewer["content"].as_str().unwrap().len(), 100_000);
}

#[tokio::test]
async fn read_file_decodes_marks_and_names_binaries() {
    let bench = Bench::new();
    bench.put("bom.txt", b"\xef\xbb\xbfhi\n");
    bench.put("u16.txt", b"\xff\xfeh\0i\0\r\0\n\0");
    bench.put("p.png", b"\x89PNG\r\n\x1a\n\0\0\0\0");
    bench.put("latin.txt", b"caf\xe9\n");
    bench.put("empty", b"");
    let content = async |path: &str| bench.call("read_file", json!({ "path": path })).await["content"].clone();
    assert_eq!(content("bom.txt").await, "hi\n");
    assert_eq!(content("u16.txt").await, "hi\r\n");
    assert_eq!(content("latin.txt").await, "caf\u{fffd}\n");
    assert_eq!(
        bench.call("read_file", json!({ "path": "p.png" })).await,
        json!({ "error": "Cannot read 'p.png': it is a binary file (PNG image, 12 bytes)", "path": "p.png", "file_size": 12, "truncated": false })
    );
    assert_eq!(
        bench.call("read_file", json!({ "path": "empty" })).await,
        json!({ "content": "", "total_lines": 0, "file_size": 0, "truncated": false })
    );
}

#[tokio::test]
async fn each_refusal_has_its_text() {
    let bench = Bench::new();
    bench.put("src/main.rs", "x");
    bench.put("src/mine.rs", "x");
    bench.put(".env", "KEY=1");
    std::fs::create_dir(bench.ws("dir")).unwrap();
    let cases: &[(&str, Value, &str)] = &[
        (
            "read_file",
            json!({ "path": "src/mian.rs" }),
            "File not found: src/mian.rs. Similar names: src/main.rs, src/mine.rs",
        ),
        ("read_file", json!({ "path": "zzz" }), "File not found: zzz"),
        ("read_file", json!({ "path": "/etc/passwd" }), "Access denied: '/etc/passwd' is outside the workspace"),
        ("read_file", json!({ "path": "/no/such/file" }), "Access denied: '/no/such/file' is outside the workspace"),
        (
            "read_file",
            json!({ "path": "../outside/secret.txt" }),
            "Access denied: '../outside/secret.txt' is outside the workspace",
        ),
        (
            "read_file",
            json!({ "path": "../outside/missing" }),
            "Access denied: '../outside/missing' is outside the workspace",
        ),
        ("read_file", json!({ "path": ".env" }), "Cannot read '.env': it is a credential file"),
        ("read_file", json!({ "path": "" }), "argument 'path': must not be empty"),
        ("read_file", json!({ "path": "a\0b" }), "argument 'path': must not contain a NUL character"),
        (
            "read_file",
            json!({ "path": "dir" }),
            "Cannot read 'dir': it is a directory, not a regular file. List it with search_files(\"*\", target=\"files\", path=...)",
        ),
        (
            "write_file",
            json!({ "path": "dir", "content": "" }),
            "Cannot write 'dir': it is a directory, not a regular file",
        ),
        ("write_file", json!({ "path": "a", "content": "\0" }), "argument 'content': must not contain a NUL character"),
        ("write_file", json!({ "path": "../x", "content": "" }), "Access denied: '../x' is outside the workspace"),
        ("write_file", json!({ "path": "/etc/x", "content": "" }), "Access denied: '/etc/x' is outside the workspace"),
        (
            "write_file",
            json!({ "path": ".git/hooks/x", "content": "" }),
            "Cannot write '.git/hooks/x': it is a git hook or git configuration",
        ),
        (
            "write_file",
            json!({ "path": ".bashrc", "content": "" }),
            "Cannot write '.bashrc': it is a shell start-up file",
        ),
        (
            "write_file",
            json!({ "path": ".ssh/config", "content": "" }),
            "Cannot write '.ssh/config': it is a SSH directory",
        ),
        (
            "write_file",
            json!({ "path": "gloveport.toml", "content": "" }),
            "Cannot write 'gloveport.toml': it is a file of the runtime",
        ),
        (
            "write_file",
            json!({ "path": "src/main.rs/x", "content": "" }),
            "Cannot write 'src/main.rs/x': a part of the path is not a directory",
        ),
        ("search_files", json!({ "pattern": "x", "path": "nope" }), "Path not found: nope"),
        ("search_files", json!({ "pattern": "x", "path": "/etc" }), "Access denied: '/etc' is outside the workspace"),
        ("search_files", json!({ "pattern": "x", "path": ".env" }), "Cannot search '.env': it is a credential file"),
        ("search_files", json!({ "pattern": "" }), "argument 'pattern': must not be empty"),
    ];
    for (tool, args, text) in cases {
        assert_eq!(bench.call(tool, args.clone()).await["error"], *text, "{tool} {args}");
    }
    let bad = bench.call("search_files", json!({ "pattern": "(" })).await["error"].as_str().unwrap().to_owned();
    assert!(bad.starts_with("argument 'pattern': not a valid regular expression: regex parse error:"), "{bad}");
}

#[tokio::test]
async fn write_file_replaces_and_keeps_what_matters() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    assert_eq!(
        bench.call("write_file", json!({ "path": "a/b/c.txt", "content": "é\n" })).await,
        json!({ "bytes_written": 3, "dirs_created": true })
    );
    assert_eq!(bench.get("a/b/c.txt"), "é\n");
    std::fs::set_permissions(bench.ws("a/b/c.txt"), std::fs::Permissions::from_mode(0o750)).unwrap();
    let again = bench.call("write_file", json!({ "path": "a/b/c.txt", "content": "2" })).await;
    assert_eq!(again, json!({ "bytes_written": 1, "dirs_created": false }));
    assert_eq!(std::fs::metadata(bench.ws("a/b/c.txt")).unwrap().permissions().mode() & 0o7777, 0o750);
    bench.put("crlf.txt", "a\r\nb\r\n");
    bench.call("write_file", json!({ "path": "crlf.txt", "content": "x\ny\r\nz\n" })).await;
    assert_eq!(bench.get("crlf.txt"), "x\r\ny\r\nz\r\n");
    std::os::unix::fs::symlink("a/b/c.txt", bench.ws("link")).unwrap();
    std::os::unix::fs::symlink(bench.ws("a/b/c.txt"), bench.ws("abslink")).unwrap();
    for link in ["link", "abslink"] {
        let answer = bench.call("write_file", json!({ "path": link, "content": link })).await;
        assert_eq!(answer["dirs_created"], false, "{answer}");
        assert!(std::fs::symlink_metadata(bench.ws(link)).unwrap().is_symlink());
        assert_eq!(bench.get("a/b/c.txt"), link);
        assert_eq!(bench.call("read_file", json!({ "path": link })).await["content"], link);
    }
    assert_eq!(bench.call("write_file", json!({ "path": ".env", "content": "KEY=secret" })).await["bytes_written"], 10);
    assert_eq!(bench.get(".env"), "KEY=secret");
    let left: Vec<_> = crate::support::snapshot(&bench.ws(""))
        .into_keys()
        .filter(|p| p.to_string_lossy().contains(".gloveport-"))
        .collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn search_files_lists_lines_files_and_counts() {
    let bench = Bench::new();
    bench.put("a.rs", "fn one() {}\nlet x = 1;\nfn two() {}\n");
    bench.put("sub/b.rs", "fn three() {}\n");
    bench.put("sub/c.txt", "fn four\n");
    bench.put(".hidden", "fn hidden\n");
    bench.put("target/x.rs", "fn built\n");
    bench.put(".gitignore", "target/\n");
    bench.put("bin.rs", b"fn bin\0\n");
    let hits = bench.call("search_files", json!({ "pattern": "^fn (one|three)", "file_glob": "*.rs" })).await;
    assert_eq!(
        hits,
        json!({ "total_count": 2, "matches": [
            { "path": "a.rs", "line": 1, "content": "fn one() {}" },
            { "path": "sub/b.rs", "line": 1, "content": "fn three() {}" }], "truncated": false })
    );
    let files = bench.call("search_files", json!({ "pattern": "fn ", "output_mode": "files_only" })).await;
    assert_eq!(
        files,
        json!({ "total_count": 3, "matches": [], "files": ["a.rs", "sub/b.rs", "sub/c.txt"], "truncated": false })
    );
    let counts = bench.call("search_files", json!({ "pattern": "fn ", "output_mode": "count", "path": "./sub" })).await;
    assert_eq!(
        counts,
        json!({ "total_count": 2, "matches": [], "counts": { "sub/b.rs": 1, "sub/c.txt": 1 }, "truncated": false })
    );
    let first = bench.call("search_files", json!({ "pattern": "fn ", "limit": 1 })).await;
    assert_eq!(
        first,
        json!({ "total_count": 2, "matches": [{ "path": "a.rs", "line": 1, "content": "fn one() {}" }],
            "truncated": true, "next_offset": 1, "total_count_is_lower_bound": true })
    );
    let next = bench.call("search_files", json!({ "pattern": "fn ", "limit": 10, "offset": 1 })).await;
    assert_eq!(next["matches"].as_array().unwrap().len(), 3);
    assert_eq!((&next["truncated"], &next["total_count"]), (&json!(false), &json!(4)));
    let around = bench.call("search_files", json!({ "pattern": "let x", "context": 1 })).await;
    assert_eq!(
        around["matches"],
        json!([{ "path": "a.rs", "line": 2, "content": "let x = 1;", "before": ["fn one() {}"], "after": ["fn two() {}"] }])
    );
    let single = bench.call("search_files", json!({ "pattern": "built", "path": "target/x.rs" })).await;
    assert_eq!(single["matches"], json!([{ "path": "target/x.rs", "line": 1, "content": "fn built" }]));
    let ignored = bench.call("search_files", json!({ "pattern": "built", "path": "target" })).await;
    assert_eq!(ignored["total_count"], 1, "a directory that is asked for by name is searched although it is ignored");
}

#[tokio::test]
async fn search_files_by_name_is_newest_first() {
    let bench = Bench::new();
    for (at, name) in ["old.rs", "mid/new_main.rs", "mid/main.rs"].iter().enumerate() {
        bench.put(name, "x");
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 * at as u64);
        std::fs::File::open(bench.ws(name)).unwrap().set_modified(time).unwrap();
    }
    let files =
        async |pattern: &str| bench.call("search_files", json!({ "pattern": pattern, "target": "files" })).await;
    assert_eq!(files("*.rs").await["files"], json!(["mid/main.rs", "mid/new_main.rs", "old.rs"]));
    assert_eq!(files("main").await["files"], json!(["mid/main.rs", "mid/new_main.rs"]));
    assert_eq!(files("mid/*.rs").await["total_count"], 2);
    let one = bench.call("search_files", json!({ "pattern": "*", "target": "files", "limit": 1 })).await;
    assert_eq!(
        one,
        json!({ "total_count": 3, "matches": [], "files": ["mid/main.rs"], "truncated": true, "next_offset": 1 })
    );
}
