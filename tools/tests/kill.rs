//! A process that dies in the middle of a write: what the next start finds.

use std::process::Command;

use gloveport::job::Access;
use gloveport::workspace::{Change, Workspace};
use gloveport_tools::HostWorkspace;

use crate::support::{Bench, snapshot};

/// Where a transaction can be cut off, and whether its steps have begun to count then.
const POINTS: &[(&str, bool)] = &[
    ("apply-staged", false),
    ("apply-writing", false),
    ("apply-committed", true),
    ("apply-step", true),
    ("apply-done", true),
];

fn changes() -> Vec<Change> {
    let write = |path: &str| Change::Write { path: path.into(), content: "new\n".into(), like: None };
    vec![
        write("a"),
        write("sub/b"),
        write("made/deep/c"),
        Change::Remove { path: "gone".into() },
        Change::Rename { from: "from".into(), to: "sub/to".into() },
    ]
}

/// Not a test of its own: the process that is killed. It is started by the test below with a fault point in its environment.
#[test]
#[ignore = "runs only as a child of another test"]
fn child() {
    let (Ok(root), Ok(point)) = (std::env::var("KILL_ROOT"), std::env::var("KILL_POINT")) else { return };
    let single = std::env::var("KILL_SINGLE").is_ok();
    let scenario = fail::FailScenario::setup();
    fail::cfg_callback(point, || std::process::abort()).unwrap();
    let workspace = HostWorkspace::builder(root).access(Access::ReadWrite).open().unwrap();
    let changes = if single { changes()[1..2].to_vec() } else { changes() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(workspace.apply(changes)).unwrap();
    scenario.teardown();
    std::process::exit(7);
}

/// If this fails, a crash leaves half a patch or files of ours in a user's project.
#[test]
#[cfg_attr(not(feature = "failpoints"), ignore = "needs --features failpoints")]
fn a_killed_transaction_is_old_or_new_and_leaves_nothing() {
    for (point, counts) in POINTS {
        for single in [false, true] {
            let bench = Bench::new();
            for path in ["a", "sub/b", "gone", "from"] {
                bench.put(path, "old\n");
            }
            let before = snapshot(&bench.ws(""));
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--ignored", "--exact", "kill::child"]).env("KILL_ROOT", bench.ws("")).env("KILL_POINT", point);
            if single {
                child.env("KILL_SINGLE", "1");
            }
            let output = child.output().unwrap();
            assert_eq!(
                output.status.code(),
                None,
                "{point} was not reached: {}",
                String::from_utf8_lossy(&output.stdout)
            );
            HostWorkspace::builder(bench.ws("")).access(Access::ReadWrite).open().unwrap();
            let after = snapshot(&bench.ws(""));
            assert!(after.keys().all(|path| !path.to_string_lossy().contains(".gloveport-")), "{point}: {after:?}");
            let is_new = if single { bench.get("sub/b") == "new\n" } else { *counts };
            if is_new && !single {
                let new = |path: &str| assert_eq!(bench.get(path), "new\n", "{point}: {path}");
                ["a", "sub/b", "made/deep/c"].iter().for_each(|path| new(path));
                assert!(
                    !bench.ws("gone").exists() && !bench.ws("from").exists() && bench.get("sub/to") == "old\n",
                    "{point}"
                );
            } else if !is_new {
                assert_eq!(after, before, "{point}");
            }
        }
    }
}

/// If this fails, a journal that a script wrote gets the host to do at its next start what the guards refuse.
#[test]
fn a_forged_journal_does_nothing_that_is_refused() {
    let bench = Bench::new();
    let id = "0123456789abcdef";
    bench.put(&format!(".gloveport-{id}.1.new"), "evil\n");
    bench.put("victim", "safe\n");
    let steps = [
        format!(r#"{{"put":{{"dir":".git/hooks","name":"pre-commit","new":".gloveport-{id}.1.new","old":null}}}}"#),
        format!(r#"{{"put":{{"dir":"../outside","name":"secret.txt","new":".gloveport-{id}.1.new","old":null}}}}"#),
        format!(r#"{{"put":{{"dir":"","name":"../outside/x","new":".gloveport-{id}.1.new","old":null}}}}"#),
        r#"{"put":{"dir":"","name":"victim","new":"victim2","old":null}}"#.to_owned(),
        r#"{"move":{"dir":"","name":"victim","to_dir":".git/hooks","to_name":"pre-commit"}}"#.to_owned(),
    ];
    std::fs::create_dir_all(bench.ws(".git/hooks")).unwrap();
    let journal = format!("{{\"stage\":\"\"}}\n{{\"commit\":[{}]}}\n", steps.join(","));
    bench.put(&format!(".gloveport-journal-{id}"), journal);
    let outside = snapshot(&bench.outside(""));
    HostWorkspace::builder(bench.ws("")).access(Access::ReadWrite).open().unwrap();
    assert_eq!(snapshot(&bench.outside("")), outside);
    assert_eq!(std::fs::read_dir(bench.ws(".git/hooks")).unwrap().count(), 0);
    assert_eq!(bench.get("victim"), "safe\n");
    assert!(snapshot(&bench.ws("")).keys().all(|path| !path.to_string_lossy().contains(".gloveport-")));
}

/// If this fails, a patch of several files can stay half done when one of them can't be written.
#[tokio::test]
async fn a_step_that_fails_takes_back_those_before_it() {
    let bench = Bench::new();
    bench.put("a", "old\n");
    bench.put("b", "old\n");
    bench.put("gone", "old\n");
    let before = snapshot(&bench.ws(""));
    let write = |path: &str| Change::Write { path: path.into(), content: "new\n".into(), like: None };
    // The rename meets a file that the transaction itself makes just before.
    let changes = vec![
        write("a"),
        write("dir/new"),
        Change::Remove { path: "gone".into() },
        write("taken"),
        Change::Rename { from: "b".into(), to: "taken".into() },
    ];
    let refused = bench.workspace.apply(changes).await.unwrap_err();
    assert_eq!(refused.to_string(), "it exists already");
    assert_eq!(snapshot(&bench.ws("")), before);
    assert!(!bench.ws("dir").exists());
}
