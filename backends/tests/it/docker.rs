//! What is particular about containers: what they are made of, their limits, their end.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use gloveport_backends::docker::{self, DockerOptions};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::engines;
use crate::harness::*;

pub fn trials() -> Vec<Trial> {
    let cases: [(&str, Case); 9] = [
        ("e22_made_as_hardened_as_promised", hardened),
        ("e23_e24_nothing_to_reach_inside", nothing_to_reach),
        ("e25_images_that_do_not_fit", bad_images),
        ("r16_disk_is_bounded", disk),
        ("r25_fork_bomb", fork_bomb),
        ("r26_out_of_memory", out_of_memory),
        ("p24_container_removed_under_the_run", removed),
        ("p24_no_engine_and_a_silent_engine", no_engine),
        ("c3_n9_idle_containers_go", idle),
    ];
    cases.into_iter().map(|(name, case)| trial(Place::Docker, name, case)).collect()
}

fn with(options: &DockerOptions) -> Bench {
    Bench::with(docker::backend(options, engines::docker_endpoint(), None).unwrap(), config())
}

fn docker(line: &str) -> String {
    engines::sh(&format!("docker -H {} {line}", engines::docker_endpoint()))
}

fn container_of(task: &str) -> String {
    docker(&format!("ps -q --filter label=org.gloveport.task={task}")).trim().to_owned()
}

fn hardened(_: Place) -> Outcome {
    block_on(async {
        let bench = with(&engines::docker_options());
        let result = bench
            .sandbox
            .execute(
                request("import os\nprint(os.getuid(), os.getgid(), os.getcwd().startswith('/tmp/'))")
                    .task_id("hardened"),
            )
            .await;
        expect_output(&result, "65532 65532 True\n")?;
        let found: Value = serde_json::from_str(&docker(&format!("inspect {}", container_of("hardened"))))?;
        let host = &found[0]["HostConfig"];
        ensure!(host["Privileged"] == false && host["CapDrop"][0] == "ALL" && host["CapAdd"].is_null(), "{host:#}");
        ensure!(
            host["ReadonlyRootfs"] == true
                && host["NetworkMode"] == "none"
                && host["Binds"].is_null()
                && host["Init"] == true,
            "{host:#}"
        );
        ensure!(
            host["SecurityOpt"][0] == "no-new-privileges"
                && host["PidsLimit"] == 128
                && host["Memory"] == host["MemorySwap"],
            "{host:#}"
        );
        ensure!(host["LogConfig"]["Type"] == "none" && found[0]["Config"]["User"] == "65533:65533", "{host:#}");
        bench.close().await;
        ensure!(container_of("hardened").is_empty(), "still there");
        Ok(())
    })
}

fn nothing_to_reach(_: Place) -> Outcome {
    block_on(async {
        let bench = with(&engines::docker_options());
        let code = r"
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def denied(what):
    try:
        what()
        return False
    except OSError:
        return True
def call(*args):
    if libc.syscall(*args) < 0: raise OSError(ctypes.get_errno(), 'no')
print([denied(lambda p=p: open(p, 'w').write('x')) for p in ('/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/etc/passwd', '/usr/x', '/sys/fs/cgroup/x')])
print([denied(lambda n=n, a=a: call(n, *a)) for n, a in ((165, (b'x', b'/tmp', b'tmpfs', 0, 0)), (272, (0x10000000,)), (321, (0, 0, 0)), (250, (0, 0)), (101, (16, 1, 0, 0)))])
print([denied(lambda a=a: socket.create_connection(a, 2)) for a in (('169.254.169.254', 80), ('172.17.0.1', 22), ('1.1.1.1', 53))], denied(lambda: socket.getaddrinfo('example.org', 80)))
print(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 'NoNewPrivs:\t1' in open('/proc/self/status').read())
print(sorted(set(open('/proc/1/environ').read().split('\0')) - {''}) if not denied(lambda: open('/proc/1/environ').read()) else 'hidden')
";
        let result = json(&bench.run(code).await);
        let expected = "[True, True, True, True, True]\n[True, True, True, True, True]\n[True, True, True] True\n0000000000000000 True\n";
        let text = result["output"].as_str().unwrap();
        ensure!(text.starts_with(expected), "{result:#}");
        ensure!(!text.to_lowercase().contains("key") && !text.contains("TOKEN"), "{text}");
        bench.close().await;
        Ok(())
    })
}

fn bad_images(_: Place) -> Outcome {
    block_on(async {
        let missing = DockerOptions { image: "nowhere/none:1".into(), ..engines::docker_options() };
        let result = json(&with(&missing).run("print(1)").await);
        ensure!(
            result["kind"] == "backend_setup"
                && result["error"].as_str().unwrap_or_default().contains("docker pull nowhere/none:1"),
            "missing: {result:#}"
        );
        // An image without Python, whose entry point must not be run either.
        engines::sh(&format!(
            "cd {0} && mkdir -p empty && echo x > empty/f && tar -C empty -c . | docker -H {1} import -c 'ENTRYPOINT [\"/boom\"]' - gloveport-empty:1",
            engines::home().display(),
            engines::docker_endpoint()
        ));
        let result = json(
            &with(&DockerOptions { image: "gloveport-empty:1".into(), ..engines::docker_options() })
                .run("print(1)")
                .await,
        );
        ensure!(
            result["kind"] == "backend_setup"
                && result["error"].as_str().unwrap_or_default().contains("has no 'python3'"),
            "empty: {result:#}"
        );
        let result = json(
            &with(&DockerOptions { python: "/bin/true".into(), ..engines::docker_options() }).run("print(1)").await,
        );
        ensure!(
            result["kind"] == "backend_setup"
                && result["error"].as_str().unwrap_or_default().contains("not a working Python"),
            "true: {result:#}"
        );
        wait_for(15.0, "a container is left behind", || {
            docker("ps -aq --filter status=created --filter label=org.gloveport").is_empty()
        })?;
        Ok(())
    })
}

fn disk(_: Place) -> Outcome {
    block_on(async {
        let bench = with(&DockerOptions { disk: 20, inodes: 500, ..engines::docker_options() });
        let code = r"
import os
for place in ('/tmp', '/workspace'):
    try:
        with open(place + '/fill', 'wb') as f:
            while True: f.write(b'x' * (1 << 20))
    except OSError as e: print(e.errno, os.stat(place + '/fill').st_size <= 20 << 20)
    os.unlink(place + '/fill')
    try:
        for n in range(1000): open(place + '/n%d' % n, 'w').close()
    except OSError as e: print(e.errno)
    for n in range(1000):
        try: os.unlink(place + '/n%d' % n)
        except OSError: pass
";
        expect_output(&bench.run(code).await, "28 True\n28\n28 True\n28\n")?;
        bench.close().await;
        Ok(())
    })
}

fn fork_bomb(_: Place) -> Outcome {
    block_on(async {
        let bench = with(&engines::docker_options());
        expect_output(&bench.run("print(1)").await, "1\n")?;
        let started = Instant::now();
        let code = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass";
        let result = json(&bench.sandbox.execute(request(code).timeout_secs(3.0)).await);
        ensure!(
            result["status"] == "timeout" && started.elapsed() < Duration::from_secs(8),
            "{:?} {result:#}",
            started.elapsed()
        );
        expect_output(&bench.run("print('after')").await, "after\n")?;
        bench.close().await;
        Ok(())
    })
}

fn out_of_memory(_: Place) -> Outcome {
    block_on(async {
        let bench = with(&DockerOptions { memory: 64, ..engines::docker_options() });
        let result =
            json(&bench.run("print('before', flush=True)\nx = []\nwhile True: x.append(bytearray(1 << 20))").await);
        ensure!(result["status"] == "error" && result["kind"] == "memory", "{result:#}");
        ensure!(result["output"].as_str().unwrap().starts_with("before"), "{result:#}");
        let code = "import subprocess, sys\np = subprocess.run([sys.executable, '-c', 'x = []\\nwhile True: x.append(bytearray(1 << 20))'])\nprint(p.returncode)\nsys.exit(p.returncode != 0)";
        let result = json(&bench.run(code).await);
        ensure!(result["kind"] == "memory" && result["exit_code"] == 1, "{result:#}");
        expect_output(&bench.run("print('after')").await, "after\n")?;
        let result = json(&bench.run("import os; os.kill(os.getpid(), 9)").await);
        ensure!(result["kind"] == "script", "a plain kill is not memory: {result:#}");
        bench.close().await;
        Ok(())
    })
}

fn removed(_: Place) -> Outcome {
    block_on(async {
        let bench = with(&engines::docker_options());
        for how in ["rm -f", "kill"] {
            expect_output(&bench.sandbox.execute(request("print('warm')").task_id("removed")).await, "warm\n")?;
            let code = "from hermes_tools import slow\nprint('before', flush=True)\nslow(60)";
            let remove = async {
                tokio::time::sleep(Duration::from_secs(3)).await;
                tokio::task::spawn_blocking(move || docker(&format!("{how} {}", container_of("removed"))))
                    .await
                    .unwrap();
                Instant::now()
            };
            let (result, at) = tokio::join!(bench.sandbox.execute(request(code).task_id("removed")), remove);
            let result = json(&result);
            ensure!(
                result["kind"] == "backend_lost" && at.elapsed() < Duration::from_secs(5),
                "{how}: {:?} {result:#}",
                at.elapsed()
            );
            ensure!(
                result["tool_calls"][0]["outcome"] == "unknown"
                    && result["output"].as_str().unwrap().starts_with("before"),
                "{result:#}"
            );
            expect_output(&bench.sandbox.execute(request("print('again')").task_id("removed")).await, "again\n")?;
        }
        bench.close().await;
        Ok(())
    })
}

fn no_engine(_: Place) -> Outcome {
    block_on(async {
        let run = |endpoint: String| async move {
            json(
                &Bench::with(docker::backend(&engines::docker_options(), &endpoint, None).unwrap(), config())
                    .run("print(1)")
                    .await,
            )
        };
        let result = run("unix:///nowhere/docker.sock".into()).await;
        ensure!(
            result["kind"] == "backend_setup" && result["error"].as_str().unwrap().contains("systemctl start docker"),
            "{result:#}"
        );
        let path = engines::home().join("silent.sock");
        let _ = std::fs::remove_file(&path);
        let _silent = std::os::unix::net::UnixListener::bind(&path)?;
        let started = Instant::now();
        let result = run(format!("unix://{}", path.display())).await;
        ensure!(
            result["kind"] == "backend_setup" && started.elapsed() < Duration::from_secs(12),
            "{:?} {result:#}",
            started.elapsed()
        );
        Ok(())
    })
}

fn idle(_: Place) -> Outcome {
    block_on(async {
        let bench = with(&DockerOptions { containers: 1, ..engines::docker_options() });
        expect_output(&bench.sandbox.execute(request("print(1)").task_id("idle-a")).await, "1\n")?;
        // One container at most: the idle one makes room.
        expect_output(&bench.sandbox.execute(request("print(2)").task_id("idle-b")).await, "2\n")?;
        wait_for(10.0, "the first is still there", || container_of("idle-a").is_empty())?;
        ensure!(bench.backend.environments().stop("idle-b").await);
        ensure!(container_of("idle-b").is_empty());
        // A container whose making is broken off does not stay.
        let _ = tokio::time::timeout(
            Duration::from_millis(150),
            bench.sandbox.execute(request("print(1)").task_id("idle-c")),
        )
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        bench.close().await;
        let left = Command::new("sh")
            .args([
                "-c",
                &format!("docker -H {} ps -aq --filter label=org.gloveport.task=idle-c", engines::docker_endpoint()),
            ])
            .output()?;
        ensure!(left.stdout.is_empty(), "left behind");
        Ok(())
    })
}
