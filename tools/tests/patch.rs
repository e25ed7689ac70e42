//! `patch`: both modes over real files, and its diffs against `git apply` and `patch`.

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Bench, snapshot};

#[tokio::test]
async fn replace_edits_one_place() {
    let bench = Bench::new();
    bench.put("a.py", "def f():\n    return 1\n");
    let answer =
        bench.call("patch", json!({ "path": "a.py", "old_string": "return 1", "new_string": "return 2" })).await;
    assert_eq!(
        answer,
        json!({
            "success": true,
            "diff": "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n",
            "files_modified": ["a.py"], "files_created": [], "files_deleted": [], "replacements": 1, "strategy": "exact"
        })
    );
    assert_eq!(bench.get("a.py"), "def f():\n    return 2\n");
    let again = bench
        .call("patch", json!({ "path": "a.py", "old_string": "    return 1", "new_string": "    return 2" }))
        .await;
    assert_eq!((&again["success"], &again["no_change"]), (&json!(true), &json!(true)));
    assert_eq!(bench.get("a.py"), "def f():\n    return 2\n");
}

#[tokio::test]
async fn replace_keeps_line_ends_and_indentation() {
    let cases: &[(&str, &str, &str, &str, &str)] = &[
        ("exact", "a\r\nb\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\n"),
        ("exact", "a\r\nb\r\n", "a\r\n", "x\r\n", "x\r\nb\r\n"),
        ("exact", "a\nb", "b", "c\nd", "a\nc\nd"),
        (
            "line_trimmed",
            "class A:\r\n    def f(self):\r\n        return 1\r\n",
            "def f(self):\n    return 1",
            "def f(self):\n    x = 1\n    return x",
            "class A:\r\n    def f(self):\r\n        x = 1\r\n        return x\r\n",
        ),
        (
            "line_trimmed",
            "class A:\n    def f(self):\n        return 1\n",
            "    def f(self): \n        return 1",
            "    def f(self):\n        return 2",
            "class A:\n    def f(self):\n        return 2\n",
        ),
        ("whitespace_normalized", "x = f(a,  b)\n", "f(a, b)", "g(a, b)", "x = g(a, b)\n"),
        (
            "unicode_normalized",
            "say(\u{201c}it\u{2019}s fine\u{201d}) \u{2014} ok\n",
            "say(\"it's fine\") -- ok",
            "say(\"it's good\") -- ok",
            "say(\u{201c}it\u{2019}s good\u{201d}) \u{2014} ok\n",
        ),
        ("escape_normalized", "if a:\n\tb\n", "if a:\\n\\tb", "if a:\\n\\tc", "if a:\n\tc\n"),
        ("trimmed_boundary", "f(1)\n", "\n\nf(1)\n\n", "\n\nf(2)\n\n", "f(2)\n"),
    ];
    let bench = Bench::new();
    for (strategy, file, old, new, expected) in cases {
        bench.put("f", file);
        let answer = bench.call("patch", json!({ "path": "f", "old_string": old, "new_string": new })).await;
        assert_eq!(answer["strategy"], *strategy, "{answer}");
        assert_eq!(bench.get("f"), *expected, "{strategy}");
    }
}

#[tokio::test]
async fn replace_errors_leave_the_file_alone() {
    let bench = Bench::new();
    let six = "x = 1\ny\n".repeat(6);
    let cases: &[(&str, Value, &str)] = &[
        ("a\n", json!({ "path": "f", "old_string": "", "new_string": "b" }), "old_string must not be empty"),
        ("a\n", json!({ "path": "f", "old_string": " \n", "new_string": "b" }), "old_string must not be blank"),
        (
            "a\n",
            json!({ "path": "f", "old_string": "a", "new_string": "a" }),
            "old_string and new_string are identical",
        ),
        (
            "a\n",
            json!({ "path": "f", "old_string": "zz", "new_string": "b" }),
            "f: Could not find a match for old_string",
        ),
        ("a\n", json!({ "path": "nope", "old_string": "zz", "new_string": "b" }), "File not found: nope"),
        ("a\n", json!({ "path": "f", "new_string": "b" }), "argument 'old_string': required for mode \"replace\""),
        ("a\n", json!({ "mode": "patch" }), "argument 'patch': required for mode \"patch\""),
        (
            &six,
            json!({ "path": "f", "old_string": "x = 1", "new_string": "b" }),
            "f: Found 6 matches for old_string. Add context to make it unique, or use replace_all=True:\n  L1: x = 1\n  L3: x = 1\n  \
             L5: x = 1\n  L7: x = 1\n  L9: x = 1\n  ... and 1 more",
        ),
        (
            "fn alpha() {\n    one();\n    two();\n}\n",
            json!({ "path": "f", "old_string": "fn alpha() {\n  completely\n  different\n  things\n}", "new_string": "b" }),
            "f: Could not find a match for old_string. Closest sections:\n  L1: fn alpha() {\n  L2:     one();\n  L3:     two();\n  L4: }",
        ),
    ];
    for (file, args, text) in cases {
        bench.put("f", file);
        let answer = bench.call("patch", args.clone()).await;
        assert_eq!(answer["error"], *text, "{args}");
        assert_eq!(bench.get("f"), *file, "{args}");
    }
    bench.put("f", &six);
    let all = bench
        .call("patch", json!({ "path": "f", "old_string": "x = 1", "new_string": "z", "replace_all": true }))
        .await;
    assert_eq!(all["replacements"], 6);
    assert_eq!(bench.get("f"), "z\ny\n".repeat(6));
    bench.put("f", "begin()\nx = compute(first)\nfinish()\n");
    let args = json!({ "path": "f", "old_string": "begin()\nx = compute(frist)\nfinish()", "new_string": "q", "replace_all": true });
    let refused = bench.call("patch", args).await;
    assert!(
        refused["error"].as_str().unwrap().contains("Could not find a match"),
        "similarity and replace_all never combine: {refused}"
    );
}

#[tokio::test]
async fn a_patch_is_all_or_nothing() {
    let bench = Bench::new();
    bench.put("a.txt", "one\ntwo\n");
    bench.put("old/b.txt", "bee\n");
    bench.put("gone.txt", "x\n");
    bench.put("pic", b"\x89PNG\0");
    let before = snapshot(&bench.ws(""));
    let bad = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+ONE\n*** Update File: missing.txt\n@@\n-x\n+y\n*** Add File: gone.txt\n+z\n\
        *** Delete File: nothing\n*** Update File: pic\n@@\n-x\n+y\n*** Add File: .git/hooks/x\n+z\n*** End Patch";
    let answer = bench.call("patch", json!({ "mode": "patch", "patch": bad })).await;
    assert_eq!(
        answer["error"],
        "The patch was not applied, nothing was written:\n- Update File: missing.txt: file not found\n- Add File: gone.txt: it exists \
         already\n- Delete File: nothing: file not found\n- Update File: pic: Cannot edit 'pic': it is not UTF-8 text\n- Add File: \
         .git/hooks/x: Cannot write '.git/hooks/x': it is a git hook or git configuration"
    );
    assert_eq!(snapshot(&bench.ws("")), before);
    let good = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+ONE\n two\n*** Add File: new/n.txt\n+n\n*** Delete File: gone.txt\n\
        *** Move File: old/b.txt -> b2.txt\n*** Update File: b2.txt\n@@\n-bee\n+BEE\n*** Move File: pic -> pics/pic\n*** End Patch";
    let answer = bench.call("patch", json!({ "mode": "patch", "patch": good })).await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(answer["files_modified"], json!(["a.txt", "old/b.txt -> b2.txt", "pic -> pics/pic"]));
    assert_eq!((&answer["files_created"], &answer["files_deleted"]), (&json!(["new/n.txt"]), &json!(["gone.txt"])));
    assert_eq!(
        (bench.get("a.txt").as_str(), bench.get("b2.txt").as_str(), bench.get("new/n.txt").as_str()),
        ("ONE\ntwo\n", "BEE\n", "n\n")
    );
    assert!(!bench.ws("gone.txt").exists() && !bench.ws("old/b.txt").exists() && bench.ws("pics/pic").exists());
    let dots = bench.call("patch", json!({ "mode": "patch", "patch": "*** Add File: ../x\n+a" })).await;
    assert_eq!(dots["error"], "line 1 of the patch: '..' is not allowed in a path: '../x'");
    let outside = bench.call("patch", json!({ "mode": "patch", "patch": "*** Add File: /etc/x\n+a" })).await;
    assert_eq!(
        outside["error"],
        "The patch was not applied, nothing was written:\n- Add File: /etc/x: Access denied: '/etc/x' is outside the workspace"
    );
    let swap = "*** Move File: a.txt -> c.txt\n*** Add File: a.txt\n+fresh\n";
    let answer = bench.call("patch", json!({ "mode": "patch", "patch": swap })).await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!((bench.get("a.txt").as_str(), bench.get("c.txt").as_str()), ("fresh\n", "ONE\ntwo\n"));
    let over = "*** Delete File: a.txt\n*** Move File: c.txt -> a.txt\n";
    assert_eq!(bench.call("patch", json!({ "mode": "patch", "patch": over })).await["success"], true);
    assert_eq!(bench.get("a.txt"), "ONE\ntwo\n");
    assert!(!bench.ws("c.txt").exists());
}

/// Times are of the whole call on a quiet machine; here they only have to be far from what a careless algorithm takes.
#[tokio::test]
async fn large_files_are_quick() {
    let bench = Bench::new();
    let big: String = (0..200_000).map(|n| format!("    let value_{n} = compute({n}, \"{n}\");\n")).collect();
    bench.put("big.rs", &big);
    let began = std::time::Instant::now();
    let edit = |old: &str, new: &str| json!({ "path": "big.rs", "old_string": old, "new_string": new });
    let exact = bench.call("patch", edit("value_150000 = ", "other = ")).await;
    assert_eq!(exact["strategy"], "exact", "{}", exact["error"]);
    let old = "  let value_77  = compute(77, \"77\");\nlet value_78 = compute(78, \"78\");";
    let flexible = bench.call("patch", edit(old, "gone();")).await;
    assert_eq!(flexible["strategy"], "indentation_flexible", "{}", flexible["error"]);
    let patch = "*** Update File: big.rs\n@@\n-    let value_199999 = compute(199999, \"199999\");\n+    last();\n";
    let v4a = bench.call("patch", json!({ "mode": "patch", "patch": patch })).await;
    assert_eq!(v4a["success"], true, "{}", v4a["error"]);
    let all = json!({ "path": "big.rs", "old_string": "compute", "new_string": "reckon", "replace_all": true });
    assert_eq!(bench.call("patch", all).await["replacements"], 199_997);
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Applies a diff with another program, and gives what the file is then.
fn apply_elsewhere(program: &str, name: &str, old: Option<&str>, diff: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    if let Some(old) = old {
        std::fs::write(dir.path().join(name), old).unwrap();
    }
    std::fs::write(dir.path().join("the.diff"), diff).unwrap();
    let mut command = Command::new(program);
    match program {
        "git" => command.args(["apply", "--whitespace=nowarn", "--unidiff-zero", "the.diff"]),
        _ => command.args(["-p1", "--binary", "--quiet", "-i", "the.diff"]),
    };
    let output = command.current_dir(&dir).env("GIT_CEILING_DIRECTORIES", "/").output().unwrap();
    assert!(
        output.status.success(),
        "{program}: {}\n{diff}",
        String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout)
    );
    read(&dir.path().join(name))
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_diff_is_what_happened(
        lines in prop::collection::vec("(    )?[ab{}]{0,4}( x)?\r?", 1..30),
        end in any::<bool>(),
        from in 0usize..30,
        count in 1usize..4,
        new in prop::collection::vec("[ ]{0,3}[abc]{0,5}", 0..4),
        all in any::<bool>(),
    ) {
        run(async {
            let bench = Bench::new();
            let file = lines.join("\n") + if end { "\n" } else { "" };
            let from = from % lines.len();
            let old = lines[from..lines.len().min(from + count)].join("\n");
            bench.put("f", &file);
            let answer = bench.call("patch", json!({ "path": "f", "old_string": old, "new_string": new.join("\n"), "replace_all": all })).await;
            let now = bench.get("f");
            if answer["success"] == true && answer["no_change"] != true {
                let diff = answer["diff"].as_str().unwrap();
                for program in ["git", "patch"] {
                    assert_eq!(apply_elsewhere(program, "f", Some(&file), diff).as_deref(), Some(now.as_str()), "{program}\n{diff}");
                }
            } else {
                assert_eq!(now, file, "an error changes nothing: {answer}");
            }
        });
    }

    #[test]
    fn any_pair_of_texts_has_a_right_diff(old in "([abc]?\n?){0,30}", new in "([abc]?\n?){0,30}") {
        run(async {
            let bench = Bench::new();
            bench.put("f", &old);
            let patch = format!("*** Delete File: f\n*** Add File: f\n{}", new.lines().map(|line| format!("+{line}\n")).collect::<String>());
            let answer = bench.call("patch", json!({ "mode": "patch", "patch": patch })).await;
            if answer["no_change"] != true {
                let diff = answer["diff"].as_str().unwrap();
                for program in ["git", "patch"] {
                    assert_eq!(apply_elsewhere(program, "f", Some(&old), diff), Some(bench.get("f")), "{program}\n{diff}");
                }
            }
        });
    }
}
