//! What is particular about other accounts: keys, shells, banners, cut links.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use gloveport_backends::ssh::{self, SshOptions};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::engines;
use crate::harness::*;

pub fn trials() -> Vec<Trial> {
    let cases: [(&str, Case); 6] = [
        ("e28_unknown_and_changed_host_keys", host_keys),
        ("p34_no_key_and_no_server", no_key),
        ("e29_options_of_the_user_do_not_open_anything", user_options),
        ("p20_p32_accounts_with_odd_shells", odd_shells),
        ("p21_link_cut_with_packets_dropped", link_cut),
        ("p29_locales_of_the_account", locales),
    ];
    cases.into_iter().map(|(name, case)| trial(Place::Ssh, name, case)).collect()
}

async fn run_with(options: &SshOptions, code: &str) -> Value {
    let bench = Bench::with(ssh::backend(options).unwrap(), config());
    let result = json(&bench.run(code).await);
    bench.close().await;
    result
}

fn host_keys(_: Place) -> Outcome {
    block_on(async {
        let empty = engines::home().join("empty_known_hosts");
        std::fs::write(&empty, "")?;
        let options = SshOptions { known_hosts: Some(empty.clone()), ..engines::ssh_options() };
        let result = run_with(&options, "print(1)").await;
        let error = result["error"].as_str().unwrap_or_default();
        ensure!(
            result["kind"] == "backend_setup" && error.contains("SHA256:") && error.contains("ssh-keyscan -p"),
            "{result:#}"
        );
        ensure!(std::fs::read(&empty)?.is_empty(), "a key was accepted");
        engines::sh(&format!(
            "rm -f {0}/other*; ssh-keygen -q -t ed25519 -N '' -f {0}/other",
            engines::home().display()
        ));
        let other = std::fs::read_to_string(engines::home().join("other.pub"))?;
        std::fs::write(&empty, format!("[127.0.0.1]:{} {other}", engines::sshd().port))?;
        let result = run_with(&options, "print(1)").await;
        let error = result["error"].as_str().unwrap_or_default();
        ensure!(
            result["kind"] == "backend_setup"
                && error.contains("not the one that is known")
                && error.contains("SHA256:"),
            "{result:#}"
        );
        Ok(())
    })
}

fn no_key(_: Place) -> Outcome {
    block_on(async {
        let home = engines::home();
        engines::sh(&format!(
            "rm -f {0}/stranger* {0}/locked*; ssh-keygen -q -t ed25519 -N '' -f {0}/stranger; ssh-keygen -q -t ed25519 -N secret -f {0}/locked; cat {0}/locked.pub >> {0}/authorized",
            home.display()
        ));
        for key in ["stranger", "locked"] {
            let started = Instant::now();
            let result =
                run_with(&SshOptions { identity: Some(home.join(key)), ..engines::ssh_options() }, "print(1)").await;
            ensure!(
                result["kind"] == "backend_setup" && result["error"].as_str().unwrap().contains("no key was accepted"),
                "{key}: {result:#}"
            );
            ensure!(started.elapsed() < Duration::from_secs(10));
        }
        let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let result = run_with(&SshOptions { port: Some(closed), ..engines::ssh_options() }, "print(1)").await;
        ensure!(
            result["kind"] == "backend_setup" && result["error"].as_str().unwrap().contains("Connection refused"),
            "{result:#}"
        );
        // A server that accepts and never says a word.
        let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
        let started = Instant::now();
        let result =
            run_with(&SshOptions { port: Some(silent.local_addr()?.port()), ..engines::ssh_options() }, "print(1)")
                .await;
        ensure!(
            result["kind"] == "backend_setup" && started.elapsed() < Duration::from_secs(22),
            "{:?} {result:#}",
            started.elapsed()
        );
        Ok(())
    })
}

fn user_options(_: Place) -> Outcome {
    block_on(async {
        // The user's configuration is Include'd from ~/.ssh/config of the account that ssh finds, so this test stands in as that file's reader.
        let file = Path::new("/root/.ssh/config");
        if file.exists() {
            return Ok(());
        }
        std::fs::create_dir_all("/root/.ssh")?;
        let sshd = engines::sshd();
        let text = format!(
            "Host gp-alias\n  HostName 127.0.0.1\n  Port {}\n  User root\n  IdentityFile {}\n  UserKnownHostsFile {}\n  ForwardAgent yes\n  ForwardX11 yes\n  LocalForward 39999 127.0.0.1:1\n  PermitLocalCommand yes\n  LocalCommand touch /tmp/gp-local-command\n  RemoteCommand echo hijacked\n  RequestTTY force\n  StrictHostKeyChecking no\n",
            sshd.port,
            sshd.key.display(),
            sshd.known_hosts.display()
        );
        std::fs::write(file, text)?;
        let options = SshOptions { host: "gp-alias".into(), python: engines::python(), ..SshOptions::default() };
        let result = run_with(
            &options,
            "import os; print('SSH_AUTH_SOCK' in os.environ, 'DISPLAY' in os.environ, os.isatty(1))",
        )
        .await;
        std::fs::remove_file(file)?;
        ensure!(result["output"] == "False False False\n", "{result:#}");
        ensure!(!Path::new("/tmp/gp-local-command").exists());
        Ok(())
    })
}

/// An account with a shell and a start-up file, removed by `Drop`.
struct Account(String);

/// The tools that make and remove accounts refuse to work at the same time.
static ACCOUNTS: Mutex<()> = Mutex::new(());

impl Account {
    fn new(name: &str, shell: &str, rc: &str) -> Self {
        let _turn = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("gp{name}");
        engines::sh(&format!("userdel -rf {name} 2>/dev/null; useradd -m -p '*' -s {shell} {name}"));
        std::fs::write(format!("/home/{name}/.bashrc"), rc).unwrap();
        std::fs::write(format!("/home/{name}/.cshrc"), "echo csh noise\n").unwrap();
        Self(name)
    }

    fn options(&self) -> SshOptions {
        SshOptions {
            host: format!("{}@127.0.0.1", self.0),
            python: "/usr/bin/python3".into(),
            ..engines::ssh_options()
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let _turn = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let _ =
            std::process::Command::new("userdel").args(["-rf", &self.0]).stderr(std::process::Stdio::null()).status();
    }
}

fn odd_shells(_: Place) -> Outcome {
    if !Path::new("/usr/bin/python3").exists() {
        anyhow::bail!("these accounts need /usr/bin/python3");
    }
    block_on(async {
        let noise =
            "echo Welcome to the machine; echo second line >&2; printf '\\033[31mcolour\\033[0m no line end'; set -x\n";
        for (name, shell, rc) in [
            ("noisy", "/bin/bash", noise),
            ("dash", "/bin/sh", ""),
            ("fish", "/usr/bin/fish", ""),
            ("csh", "/bin/csh", ""),
        ] {
            if !Path::new(shell).exists() {
                eprintln!("skipped in this trial: {shell} is not installed");
                continue;
            }
            let account = Account::new(name, shell, rc);
            let result = run_with(
                &account.options(),
                "from hermes_tools import echo\nimport os\nprint(echo('$HOME `id` \\'\"!'), os.path.expanduser('~'))",
            )
            .await;
            ensure!(result["output"] == format!("$HOME `id` '\"! /home/{}\n", account.0), "{name}: {result:#}");
        }
        let account = Account::new("flood", "/bin/bash", "yes noise | head -c 200000\n");
        let result = run_with(&account.options(), "print(1)").await;
        ensure!(
            result["kind"] == "backend_setup" && result["error"].as_str().unwrap().contains("64 KiB"),
            "{result:#}"
        );
        for (name, shell) in [("nologin", "/usr/sbin/nologin"), ("rbash", "/bin/rbash"), ("false", "/bin/false")] {
            let account = Account::new(name, shell, "");
            let started = Instant::now();
            let result = run_with(&account.options(), "print(1)").await;
            ensure!(
                result["kind"] == "backend_setup" && started.elapsed() < Duration::from_secs(12),
                "{name}: {result:#}"
            );
        }
        Ok(())
    })
}

fn link_cut(_: Place) -> Outcome {
    if !engines::has("iptables") {
        anyhow::bail!("iptables is missing");
    }
    // Not the port of the other trials, which run at the same time.
    let port = engines::sshd().cut_port;
    let rules = [format!("-p tcp --dport {port} -j DROP"), format!("-p tcp --sport {port} -j DROP")];
    let cut = move |on: bool| {
        for rule in &rules {
            engines::sh(&format!("iptables -w {} INPUT -i lo {rule}", if on { "-I" } else { "-D" }));
        }
    };
    block_on(async {
        let options = SshOptions { port: Some(port), ..engines::ssh_options() };
        let bench = Bench::with(ssh::backend(&options).unwrap(), config());
        expect_output(&bench.run("print('warm')").await, "warm\n")?;
        let marker = format!("gp-cut-{}", std::process::id());
        let code = format!(
            "import subprocess, time\nfrom hermes_tools import slow\nsubprocess.Popen(['/bin/sleep', '604'], env={{'M': '{marker}'}})\nprint('before', flush=True)\nslow(60)\nslow(1)\nprint('never')"
        );
        let cutter = async {
            while bench.calls() == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            cut(true);
            Instant::now()
        };
        let (result, at) = tokio::join!(bench.run(&code), cutter);
        let took = at.elapsed();
        cut(false);
        eprintln!("ssh: a cut link was noticed after {:.1} s", took.as_secs_f64());
        let result = json(&result);
        ensure!(result["kind"] == "backend_lost" && took < Duration::from_secs(15), "{took:?} {result:#}");
        ensure!(result["output"].as_str().unwrap().starts_with("before\n") && bench.calls() == 1, "{result:#}");
        ensure!(result["tool_calls"][0]["outcome"] == "unknown", "{result:#}");
        tokio::task::spawn_blocking(move || {
            wait_for(15.0, "the script is still there", || processes_with(&marker).is_empty())
        })
        .await??;
        bench.close().await;
        expect_output(&bench.run("print('again')").await, "again\n")?;
        bench.close().await;
        Ok(())
    })
}

fn locales(_: Place) -> Outcome {
    block_on(async {
        let account = Account::new(
            "locale",
            "/bin/bash",
            "export LANG=tr_TR.ISO-8859-9 LC_ALL=nowhere PYTHONIOENCODING=latin-1 PYTHONUTF8=0\n",
        );
        let result = run_with(&account.options(), "from hermes_tools import echo\nimport os\nprint(echo('ıİü€\\U0001F600'), os.environ.get('LANG'), open(0).encoding)").await;
        ensure!(result["output"].as_str().unwrap_or_default().starts_with("ıİü€\u{1F600} "), "{result:#}");
        Ok(())
    })
}
