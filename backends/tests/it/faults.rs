//! Hosts that die, links that break, places that do not work, Pythons that are none.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;
use gloveport_backends::local::{self, LocalOptions};
use libtest_mimic::Trial;

use crate::engines;
use crate::harness::*;

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = [
        on(&[Place::Local, Place::Ssh, Place::Docker], "p23_the_host_is_killed_in_a_call", host_killed),
        everywhere("p22_the_relay_is_killed_in_a_call", relay_killed),
        on(&[Place::Local], "p28_no_usable_python", no_python),
        on(&[Place::Local], "p31_places_that_do_not_work", bad_places),
        on(&[Place::Local], "p30_code_that_lies_in_wait", lying_in_wait),
        on(&[Place::Local], "p15_without_doorbells", without_doorbells),
    ]
    .into_iter()
    .flatten()
    .collect();
    if engines::is_root() {
        trials.extend(on(&[Place::Local], "p26_disk_full_at_shipping_request_and_answer", disk_full));
        trials.extend(on(&[Place::Local], "p1_another_user_reaches_nothing", another_user));
    }
    trials
}

fn host_killed(place: Place) -> Outcome {
    let marker = format!("gp-killed-{}-{}", std::process::id(), place.name());
    if place == Place::Ssh {
        engines::sshd();
    }
    let code = format!(
        "import subprocess, os\nfrom hermes_tools import slow\nsubprocess.Popen(['/bin/sleep', '602'], env={{'M': '{marker}', 'D': os.environ['HERMES_RPC_DIR']}})\nslow(600)"
    );
    // As it stands in the environment of the script's own child; the test's child has the code in its environment too.
    let running = format!("M={marker}");
    let mut child = Command::new(std::env::current_exe()?)
        .env("GP_TEST_CHILD", place.name())
        .env("GP_TEST_CODE", code)
        .env("GP_TEST_HOME", engines::home())
        .envs(handed_on(place))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    wait_for(60.0, "the script did not start", || !processes_with(&running).is_empty())?;
    std::thread::sleep(Duration::from_millis(500));
    let owner = format!(":{}:", child.id());
    if place == Place::Docker {
        ensure!(containers(place).iter().any(|c| c.contains(&owner)), "its container is not labeled as its own");
    }
    child.kill()?;
    child.wait()?;
    let gone = wait_for(15.0, "the script is still there", || processes_with(&running).is_empty())?;
    eprintln!("{}: {:.1} s after the host was killed its script was gone", place.name(), gone.as_secs_f64());
    if place == Place::Docker {
        wait_for(15.0, "its container is still there", || !containers(place).iter().any(|c| c.contains(&owner)))?;
    } else {
        // One without a lock may be another trial's that is just made or removed; one that stays is left behind.
        let dead = || {
            let dirs = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|e| e.path().join("lock"));
            dirs.filter(|lock| lock.exists() && !locked(lock)).count()
        };
        wait_for(15.0, "a run directory is left behind", || dead() == 0)?;
    }
    Ok(())
}

fn relay_killed(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("print(1)").await, "1\n")?;
        let code = "import os, signal\nfrom hermes_tools import echo, slow\nimport threading, time\nprint('before', flush=True)\nthreading.Thread(target=slow, args=(30,)).start()\ntime.sleep(0.5)\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)";
        let started = Instant::now();
        let result = json(&bench.run(code).await);
        ensure!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        ensure!(result["status"] == "error" && result["kind"] == "backend_lost", "{result:#}");
        ensure!(result["output"].as_str().unwrap().starts_with("before"), "{result:#}");
        ensure!(result["tool_calls"][0]["outcome"] == "unknown" && result["tool_calls_made"] == 1, "{result:#}");
        ensure!(bench.calls() == 1);
        expect_output(&bench.run("print('next')").await, "next\n")?;
        bench.close().await;
        Ok(())
    })
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn no_python(_: Place) -> Outcome {
    let dir = tempfile::tempdir()?;
    let wrapper = dir.path().join("python3");
    let cases = [
        ("missing", None, "No such file"),
        ("version 2", Some("#!/bin/sh\nprintf '%s:%s 2.7.18 linux2;' \"$6\" \"$5\"; exit 3\n"), "is Python 2.7.18"),
        ("version 3.5", Some("#!/bin/sh\nprintf '%s:%s 3.5.2 linux;' \"$6\" \"$5\"; exit 3\n"), "is Python 3.5.2"),
        ("nothing", Some("#!/bin/sh\nexit 0\n"), "it ended at once"),
        (
            "a message",
            Some(
                "#!/bin/sh\necho 'Python was not found; run without arguments to install from the Store.' >&2\nexit 9\n",
            ),
            "Python was not found",
        ),
        ("asks", Some("#!/bin/sh\nprintf 'Really? '\nread answer\nsleep 30\n"), "found: Really?"),
        ("noise", Some("#!/bin/sh\nyes\n"), "more than 64 KiB"),
    ];
    for (name, text, expected) in cases {
        if let Some(text) = text {
            write(&wrapper, text);
        }
        let options = LocalOptions {
            unsafe_no_isolation: true,
            python: wrapper.display().to_string(),
            ..LocalOptions::default()
        };
        let started = Instant::now();
        let result = block_on(async {
            json(&Bench::with(local::backend(&options, host_env()).unwrap(), config()).run("print(1)").await)
        });
        ensure!(started.elapsed() < Duration::from_secs(12), "{name}: {:?}", started.elapsed());
        let error = result["error"].as_str().unwrap_or_default();
        ensure!(
            result["kind"] == "backend_setup" && result["tool_calls_made"] == 0 && error.contains(expected),
            "{name}: {result:#}"
        );
    }
    for version in ["2.7.18", "3.6.15", "3.7.16"] {
        let python = format!("{}/.pyenv/versions/{version}/bin/python", std::env::var("HOME")?);
        if Path::new(&python).exists() {
            let options = LocalOptions { unsafe_no_isolation: true, python, ..LocalOptions::default() };
            let result = block_on(async {
                json(&Bench::with(local::backend(&options, host_env()).unwrap(), config()).run("print(1)").await)
            });
            let wanted =
                if version.starts_with("2") { "is Python 2".to_owned() } else { format!("is Python {version}") };
            ensure!(result["error"].as_str().unwrap_or_default().contains(&wanted), "{result:#}");
        }
    }
    Ok(())
}

fn with_place(place: &Path) -> LocalOptions {
    LocalOptions { unsafe_no_isolation: true, place: Some(place.display().to_string()), ..LocalOptions::default() }
}

fn bad_places(_: Place) -> Outcome {
    let dir = tempfile::tempdir()?;
    let run = |options: &LocalOptions| {
        block_on(async {
            json(&Bench::with(local::backend(options, host_env()).unwrap(), config()).run("print('ran')").await)
        })
    };
    for bad in ["/nowhere/at/all", "/proc", "/etc/passwd"] {
        let result = run(&with_place(Path::new(bad)));
        ensure!(
            result["kind"] == "backend_setup" && result["error"].as_str().unwrap().contains(bad),
            "{bad}: {result:#}"
        );
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777))?;
    let result = run(&with_place(dir.path()));
    ensure!(result["error"].as_str().unwrap().contains("others can change it"), "{result:#}");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777))?;
    ensure!(run(&with_place(dir.path()))["output"] == "ran\n");
    if engines::is_root() {
        engines::sh(&format!("mount -t tmpfs -o noexec,mode=1777 tmpfs {}", dir.path().display()));
        let result = run(&with_place(dir.path()));
        engines::sh(&format!("umount {}", dir.path().display()));
        ensure!(result["output"] == "ran\n", "{result:#}");
    }
    Ok(())
}

fn lying_in_wait(_: Place) -> Outcome {
    let home = tempfile::tempdir()?;
    for name in ["sitecustomize", "usercustomize", "json", "gp_frames", "_gp_tools", "hermes_tools", "selectors"] {
        std::fs::write(home.path().join(format!("{name}.py")), format!("print('LOADED {name}')\n"))?;
    }
    let path = home.path().display().to_string();
    let mut env = host_env();
    env.retain(|(name, _)| name != "HOME");
    env.extend([
        ("HOME".to_owned(), path.clone()),
        ("PYTHONPATH".to_owned(), path.clone()),
        ("PYTHONSTARTUP".to_owned(), format!("{path}/json.py")),
    ]);
    let options = LocalOptions { unsafe_no_isolation: true, python: engines::python(), ..LocalOptions::default() };
    let seen = std::sync::Arc::new(Seen::default());
    let sandbox = gloveport::Sandbox::builder()
        .config(config())
        .tools(tools(&seen))
        .backend(std::sync::Arc::new(local::backend(&options, env.clone())?))
        .environment(env.into_iter().map(|(n, v)| (n.into(), v.into())))
        .grant(gloveport::job::Grant { path: home.path().to_owned(), access: gloveport::job::Access::ReadOnly })
        .build()?;
    let code = "import os, json\nfrom hermes_tools import echo\nprint(echo(os.getcwd()))";
    let result = block_on(async { sandbox.execute(gloveport::Request::new(code)).await });
    expect_output(&result, &format!("{path}\n"))
}

fn without_doorbells(_: Place) -> Outcome {
    let options = LocalOptions { unsafe_no_isolation: true, poll: true, ..LocalOptions::default() };
    block_on(async {
        let bench = Bench::with(local::backend(&options, host_env()).unwrap(), config());
        expect_output(
            &bench.run("from hermes_tools import echo\nfor i in range(20): echo(i)\nprint('ok')").await,
            "ok\n",
        )?;
        ensure!(bench.backend.probe("default").await?.bell == "poll");
        Ok(())
    })
}

fn disk_full(_: Place) -> Outcome {
    let dir = tempfile::tempdir()?;
    let at = dir.path().display().to_string();
    let mount = |size: &str| {
        engines::sh(&format!("umount {at} 2>/dev/null; mount -t tmpfs -o size={size},nr_inodes=60,mode=700 tmpfs {at}"))
    };
    let run = |code: &str| {
        block_on(async {
            json(&Bench::with(local::backend(&with_place(dir.path()), host_env()).unwrap(), config()).run(code).await)
        })
    };
    let outcome = (|| {
        mount("600k");
        let result = run(&format!("x = '{}'\nprint(1)", "y".repeat(900_000)));
        ensure!(
            result["kind"] == "backend_setup" && result["error"].as_str().unwrap().contains("No space left"),
            "shipping: {result:#}"
        );
        let result = run(
            "from hermes_tools import echo\ntry:\n  echo('x' * 900000)\nexcept OSError as e: print('request', e.errno)\nprint(echo(1))",
        );
        ensure!(result["output"] == "request 28\n1\n", "request: {result:#}");
        // Full while a call is under way: its answer comes in space that was taken before.
        let code = "import threading, time, os\nfrom hermes_tools import slow\ndef fill():\n  time.sleep(0.5)\n  try:\n    with open('fill', 'wb') as f:\n      while True: f.write(b'x' * 4096); f.flush()\n  except OSError as e: print(e.errno)\nt = threading.Thread(target=fill); t.start()\nprint(slow(1.5))\nt.join()\nos.unlink('fill')\nprint(slow(0))";
        let result = run(code);
        ensure!(
            result["output"] == "28\n{'slept': 1.5}\n{'slept': 0}\n"
                || result["output"] == "28\n{'slept': 1.5}\n{'slept': 0.0}\n",
            "answer: {result:#}"
        );
        let result = run(
            "import os\nn = 0\ntry:\n  while True: open('f%d' % n, 'w').close(); n += 1\nexcept OSError as e: print(e.errno)\nfrom hermes_tools import echo\ntry: echo(1)\nexcept OSError as e: print('call', e.errno)",
        );
        ensure!(result["output"] == "28\ncall 28\n", "inodes: {result:#}");
        ensure!(run_dirs(dir.path()).is_empty(), "{:?}", run_dirs(dir.path()));
        Ok(())
    })();
    engines::sh(&format!("umount {at}"));
    outcome
}

fn another_user(_: Place) -> Outcome {
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777))?;
    block_on(async {
        let bench = Bench::with(local::backend(&with_place(dir.path()), host_env()).unwrap(), config());
        let code = r"
import os, subprocess, sys
rpc = os.environ['HERMES_RPC_DIR']
tries = '''
import os
os.setgid(65534); os.setuid(65534)
for what in (lambda: os.listdir(rpc), lambda: open(rpc + '/req_000001', 'w'), lambda: open(rpc + '/../script.py'), lambda: os.rename(os.path.dirname(rpc), rpc + 'x'), lambda: os.symlink('/', rpc + '/ring_9')):
    try: what(); print('REACHED')
    except OSError: print('no')
'''
print(subprocess.run([sys.executable, '-c', 'rpc = %r' % rpc + tries], capture_output=True, text=True).stdout)
";
        expect_output(&bench.run(code).await, "no\nno\nno\nno\nno\n\n")?;
        Ok(())
    })
}
