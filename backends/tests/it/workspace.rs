//! The tools' workspace on a remote: the same results and refusals as on the host.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use gloveport::backend::Backend as _;
use gloveport::workspace::{Change, Command, FileKind, Workspace, WorkspaceError};
use gloveport_backends::{RemoteBackend, Use};
use libtest_mimic::Trial;

use crate::engines;
use crate::harness::*;

const REMOTE: [Place; 3] = [Place::Command, Place::Ssh, Place::Docker];

pub fn trials() -> Vec<Trial> {
    [
        on(&REMOTE, "e17_workspace_reads_writes_renames_removes", changes),
        on(&REMOTE, "e2_e3_e5_nothing_outside", outside),
        on(&REMOTE, "e10_e11_special_and_sparse_files", special),
        on(&REMOTE, "e13_e15_names", names),
        on(&REMOTE, "workspace_commands", commands),
        on(&REMOTE, "guard_judges_the_real_path", guarded),
        on(&[Place::Command, Place::Ssh], "changes_of_a_killed_relay_are_finished", recovered),
        on(&REMOTE, "scripts_and_tools_share_the_workspace", shared),
    ]
    .into_iter()
    .flatten()
    .collect()
}

struct Ws {
    workspace: Arc<dyn Workspace>,
    backend: RemoteBackend,
    _dir: Option<tempfile::TempDir>,
}

/// A workspace that is empty: a container has one; on this machine a directory is made.
async fn open(place: Place, guard: bool) -> Ws {
    open_in(place, guard, (place != Place::Docker).then(|| tempfile::tempdir().unwrap())).await
}

async fn open_in(place: Place, guard: bool, dir: Option<tempfile::TempDir>) -> Ws {
    let root = dir.as_ref().map(|dir| dir.path().display().to_string());
    let mut backend = match place {
        Place::Ssh => {
            let options = gloveport_backends::ssh::SshOptions { workdir: root, ..engines::ssh_options() };
            gloveport_backends::ssh::backend(&options).unwrap()
        }
        Place::Command => {
            let options = gloveport_backends::command::CommandOptions {
                argv: vec!["/usr/bin/env".into()],
                workdir: root,
                ..Default::default()
            };
            gloveport_backends::command::backend(&options, host_env()).unwrap()
        }
        _ => backend(place),
    };
    if guard {
        backend = backend.guarded(Arc::new(|root: &Path, path: &Path, purpose| {
            let inside = path.strip_prefix(root).unwrap_or(path);
            (inside == Path::new("secret") || purpose == Use::Write && inside.starts_with(".git"))
                .then_some("credential file")
        }));
    }
    let workspace = backend.workspace("default").await.unwrap().unwrap();
    Ws { workspace, backend, _dir: dir }
}

impl Ws {
    async fn sh(&self, line: &str) -> String {
        let done = self.workspace.run(command(line)).await.unwrap();
        assert_eq!(done.exit_code, Some(0), "{line}: {}", String::from_utf8_lossy(&done.head));
        String::from_utf8_lossy(&done.head).into_owned()
    }

    async fn close(self) {
        self.backend.environments().shutdown().await;
    }
}

fn command(line: &str) -> Command {
    Command {
        command: line.into(),
        workdir: None,
        timeout: Duration::from_secs(20),
        env: vec![],
        keep: (20_000, 30_000),
        confined: false,
    }
}

fn write(path: &str, content: &'static [u8]) -> Change {
    Change::Write { path: path.into(), content: content.into(), like: None }
}

fn changes(place: Place) -> Outcome {
    block_on(async {
        let ws = open(place, false).await;
        let w = &ws.workspace;
        let applied = w.apply(vec![write("a/b/c.txt", b"one\n"), write("top", b"\xff\x00")]).await?;
        ensure!(applied.directories == 2, "{applied:?}");
        ensure!(&w.read("a/b/c.txt", 0, 100).await?[..] == b"one\n" && &w.read("top", 1, 1).await?[..] == b"\0");
        ensure!(w.stat("a").await?.kind == FileKind::Directory && w.stat("top").await?.len == 2);
        ensure!(
            w.stat("top")
                .await?
                .modified
                .is_some_and(|at| at.elapsed().unwrap_or_default() < Duration::from_secs(3600))
        );
        let absolute = format!("{}/a/b/c.txt", w.root());
        ensure!(&w.read(&absolute, 0, 3).await?[..] == b"one");
        w.apply(vec![Change::Rename { from: "top".into(), to: "x/moved".into() }]).await?;
        ensure!(matches!(w.stat("top").await, Err(WorkspaceError::NotFound)));
        let exists =
            w.apply(vec![Change::Rename { from: "x/moved".into(), to: "a/b/c.txt".into() }]).await.unwrap_err();
        ensure!(exists.to_string() == "it exists already", "{exists}");
        // All or nothing: the second change can't be done, so the first is not done either.
        let failed =
            w.apply(vec![write("a/b/c.txt", b"two"), write("new/f", b"x"), write("a/b", b"x")]).await.unwrap_err();
        ensure!(failed.to_string() == "it is a directory, not a regular file", "{failed}");
        ensure!(&w.read("a/b/c.txt", 0, 100).await?[..] == b"one\n" && w.stat("new").await.is_err());
        ws.sh("chmod 754 a/b/c.txt; ln -s b/c.txt a/link").await;
        w.apply(vec![write("a/link", b"through\n")]).await?;
        ensure!(w.stat("a/b/c.txt").await?.mode == 0o754 && &w.read("a/b/c.txt", 0, 9).await?[..] == b"through\n");
        ensure!(ws.sh("readlink a/link").await == "b/c.txt\n");
        w.apply(vec![Change::Remove { path: "a/link".into() }, Change::Remove { path: "x/moved".into() }]).await?;
        let names: Vec<_> = w.list("a", 10).await?.into_iter().map(|e| (e.name, e.kind)).collect();
        ensure!(names == [("b".to_owned(), FileKind::Directory)], "{names:?}");
        ensure!(ws.sh("find . -name '.gloveport-*' | wc -l").await == "0\n");
        let big = vec![b'z'; 20 << 20];
        w.apply(vec![Change::Write { path: "big".into(), content: big.clone().into(), like: None }]).await?;
        ensure!(w.read("big", 0, 40 << 20).await? == big);
        ws.sh("chmod 444 a/b/c.txt").await;
        if place == Place::Docker {
            let denied = w.apply(vec![write("a/b/c.txt", b"no")]).await.unwrap_err();
            ensure!(denied.to_string() == "permission denied: the file is read-only", "{denied}");
        }
        ws.close().await;
        Ok(())
    })
}

fn outside(place: Place) -> Outcome {
    block_on(async {
        let ws = open(place, false).await;
        let w = &ws.workspace;
        ws.sh("mkdir d; ln -s /etc abs; ln -s ../../../../etc rel; ln -s d in; ln -s \"$PWD/d\" absin; ln -s loop loop; echo x > d/f").await;
        let up = "../".repeat(40) + "etc/passwd";
        for path in [
            "/etc/passwd",
            "/etc/nothing-there",
            "..",
            &up,
            "./a/.././../x",
            "abs/passwd",
            "abs/nothing",
            "rel/passwd",
            "d/../../x",
        ] {
            let read = w.read(path, 0, 10).await.unwrap_err();
            ensure!(matches!(read, WorkspaceError::Outside), "{path}: {read}");
            let written = w.apply(vec![write(path, b"x")]).await.unwrap_err();
            ensure!(matches!(written, WorkspaceError::Outside), "{path}: {written}");
            ensure!(matches!(w.list(path, 5).await, Err(WorkspaceError::Outside)), "{path}");
        }
        ensure!(&w.read("in/f", 0, 9).await?[..] == b"x\n" && &w.read("absin/f", 0, 9).await?[..] == b"x\n");
        let looped = w.read("loop", 0, 9).await.unwrap_err();
        ensure!(looped.to_string() == "too many symbolic links", "{looped}");
        let renamed = w.apply(vec![Change::Rename { from: "d/f".into(), to: "abs/f".into() }]).await.unwrap_err();
        ensure!(matches!(renamed, WorkspaceError::Outside), "{renamed}");
        ws.close().await;
        Ok(())
    })
}

fn special(place: Place) -> Outcome {
    block_on(async {
        let ws = open(place, false).await;
        let w = &ws.workspace;
        ws.sh("mkfifo fifo; ln -s /dev/zero zero; mkdir dir; truncate -s 100M sparse").await;
        for (path, text) in
            [("fifo", "it is a FIFO, not a regular file"), ("dir", "it is a directory, not a regular file")]
        {
            let started = Instant::now();
            let refused = w.read(path, 0, 10).await.unwrap_err();
            ensure!(refused.to_string() == text && started.elapsed() < Duration::from_millis(500), "{refused}");
            ensure!(w.apply(vec![write(path, b"x")]).await.unwrap_err().to_string() == text);
        }
        ensure!(matches!(w.read("zero", 0, 10).await, Err(WorkspaceError::Outside)));
        ensure!(w.read("sparse", 0, 1000).await?.len() == 1000 && w.stat("sparse").await?.len == 100 << 20);
        ensure!(w.list("sparse", 5).await.unwrap_err().to_string() == "it is not a directory");
        ws.close().await;
        Ok(())
    })
}

fn names(place: Place) -> Outcome {
    block_on(async {
        let ws = open(place, false).await;
        let w = &ws.workspace;
        for name in
            ["new\nline", "quote'\"", "$(touch pwned)", "-rf", "*", "\u{202e}rtl", "\u{7}bell", "ü", "a b", ".hidden"]
        {
            w.apply(vec![write(name, b"1")]).await?;
            ensure!(&w.read(name, 0, 5).await?[..] == b"1", "{name:?}");
        }
        ensure!(w.list(".", 100).await?.len() == 10 && w.stat("pwned").await.is_err());
        let nul = w.read("a\0b", 0, 5).await.unwrap_err();
        ensure!(nul.to_string() == "a path must not contain a NUL character", "{nul}");
        ensure!(matches!(w.read("", 0, 5).await, Err(WorkspaceError::NotFound)));
        let long = w.read(&"x".repeat(300), 0, 5).await.unwrap_err();
        ensure!(long.to_string() == "the file name is too long", "{long}");
        ws.close().await;
        Ok(())
    })
}

fn commands(place: Place) -> Outcome {
    block_on(async {
        let ws = open(place, false).await;
        let w = &ws.workspace;
        let done = w
            .run(Command {
                env: vec![("A".into(), "ä".into()), ("PATH".into(), "/nowhere".into())],
                ..command("echo out; echo err >&2; echo $A; pwd; exit 3")
            })
            .await?;
        let text = String::from_utf8_lossy(&done.head).into_owned();
        ensure!(done.exit_code == Some(3) && text == format!("out\nerr\nä\n{}\n", w.root()), "{done:?}");
        let done = w.run(command("kill -9 $$")).await?;
        ensure!(done.exit_code == Some(137), "{done:?}");
        let done = w.run(Command { keep: (10, 20), ..command("seq 1 100000") }).await?;
        ensure!(
            &done.head[..] == b"1\n2\n3\n4\n5\n" && done.tail.ends_with(b"99999\n100000\n") && done.tail.len() == 20,
            "{done:?}"
        );
        ensure!(done.total == 588_895, "{}", done.total);
        let started = Instant::now();
        let done = w
            .run(Command { timeout: Duration::from_millis(500), ..command("echo before; sleep 100 & sleep 100") })
            .await?;
        ensure!(
            done.exit_code.is_none() && &done.head[..] == b"before\n" && started.elapsed() < Duration::from_secs(5),
            "{done:?}"
        );
        w.apply(vec![write("sub/f", b"")]).await?;
        let done = w.run(Command { workdir: Some("sub".into()), ..command("ls") }).await?;
        ensure!(&done.head[..] == b"f\n", "{done:?}");
        ensure!(matches!(
            w.run(Command { workdir: Some("/etc".into()), ..command("ls") }).await,
            Err(WorkspaceError::Outside)
        ));
        if place != Place::Docker {
            ensure!(w.run(Command { confined: true, ..command("true") }).await.is_err());
        }
        let both = tokio::join!(w.run(command("sleep 0.7; echo a")), w.run(command("sleep 0.7; echo b")));
        ensure!(&both.0?.head[..] == b"a\n" && &both.1?.head[..] == b"b\n");
        // A caller that goes away takes its command along.
        let marker = format!("gp-cancel-{}-{}", std::process::id(), place.name());
        let line = format!("M={marker} sleep 603");
        let _ = tokio::time::timeout(Duration::from_millis(700), w.run(command(&line))).await;
        tokio::task::spawn_blocking(move || {
            wait_for(5.0, "the command is still there", || processes_with(&marker).is_empty())
        })
        .await??;
        ws.close().await;
        Ok(())
    })
}

fn guarded(place: Place) -> Outcome {
    block_on(async {
        let ws = open(place, true).await;
        let w = &ws.workspace;
        ws.sh("echo s > secret; ln -s secret alias; mkdir .git; ln -s .git hooks; echo fine > other").await;
        for path in ["secret", "alias", "./x/../secret"] {
            if path.starts_with("./x") {
                ws.sh("mkdir -p x").await;
            }
            let refused = w.read(path, 0, 10).await.unwrap_err();
            ensure!(refused.to_string() == "it is a credential file", "{path}: {refused}");
        }
        for change in [
            write("alias", b"x"),
            write(".git/config", b"x"),
            write("hooks/new/deep", b"x"),
            Change::Remove { path: "secret".into() },
        ] {
            let refused = w.apply(vec![write("other", b"changed"), change.clone()]).await.unwrap_err();
            ensure!(refused.to_string() == "it is a credential file", "{change:?}: {refused}");
        }
        ensure!(&w.read("other", 0, 10).await?[..] == b"fine\n" && w.stat(".git/new").await.is_err());
        ws.close().await;
        Ok(())
    })
}

fn recovered(place: Place) -> Outcome {
    block_on(async {
        let dir = tempfile::tempdir()?;
        let plant = |name: &str, text: &str| std::fs::write(dir.path().join(name), text);
        std::fs::create_dir(dir.path().join(".git"))?;
        plant(
            ".gloveport-journal-aa",
            "{\"commit\":[{\"put\":{\"dir\":\"\",\"name\":\"half\",\"new\":\".gloveport-aa.1.new\",\"old\":null}}]}\n",
        )?;
        plant(".gloveport-aa.1.new", "whole")?;
        // A repository may bring a journal of its own: it must not get around the guard.
        plant(
            ".gloveport-journal-bb",
            "{\"commit\":[{\"put\":{\"dir\":\".git\",\"name\":\"hook\",\"new\":\".gloveport-bb.1.new\",\"old\":null}}]}\n",
        )?;
        std::fs::write(dir.path().join(".git/.gloveport-bb.1.new"), "evil")?;
        let ws = open_in(place, true, Some(dir)).await;
        ensure!(&ws.workspace.read("half", 0, 10).await?[..] == b"whole", "not finished");
        let left = ws.sh("ls -A . .git").await;
        ensure!(left == ".:\n.git\n.gloveport-journal-bb\nhalf\n\n.git:\n.gloveport-bb.1.new\n", "{left}");
        ws.close().await;
        Ok(())
    })
}

fn shared(place: Place) -> Outcome {
    block_on(async {
        let ws = open(place, false).await;
        ws.workspace.apply(vec![write("in.txt", b"from a tool")]).await?;
        let sandbox = gloveport::Sandbox::builder().config(config()).backend(Arc::new(ws.backend)).build()?;
        let result = sandbox
            .execute(gloveport::Request::new(
                "print(open('in.txt').read())\nopen('out.txt', 'w').write('from a script')",
            ))
            .await;
        expect_output(&result, "from a tool\n")?;
        ensure!(&ws.workspace.read("out.txt", 0, 100).await?[..] == b"from a script");
        Ok(())
    })
}
