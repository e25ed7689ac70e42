//! The library as an embedder uses it, and the standard library as a script sees it.

use gloveport::result::Kind;
use gloveport::{Request, Status};

use crate::harness::{configured, printed, run, sandbox, trials};

trials![
    bad_input_is_an_error_result,
    r29_source_text_of_any_form,
    limits_are_enforced_per_run,
    the_standard_library_imports,
    compression_hashes_and_databases_work,
    asyncio_works,
    c7_a_tool_may_run_another_script,
    hints_name_the_remedy,
    the_whole_output_goes_to_a_file_where_that_is_configured,
    s10_a_planted_secret_shows_in_no_sink,
];

async fn bad_input_is_an_error_result() {
    for blank in ["", "  \n\t ", "\n"] {
        assert_eq!(run(blank).await.to_json(), r#"{"error":"No code provided."}"#);
    }
    let nul = run("print(1)\nx = '\0'").await;
    assert_eq!((nul.status, nul.kind, nul.output), (Status::Error, Some(Kind::Script), None));
    assert_eq!(nul.error.unwrap(), "The code contains a NUL character (line 2).");
    let large = run(&"#".repeat((1 << 20) + 1)).await;
    assert_eq!(large.error.unwrap(), "The code is too large: 1048577 bytes, the limit is 1048576.");
    for timeout in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e30] {
        let result = sandbox().execute(Request::new("print(1)").timeout_secs(timeout)).await;
        assert_eq!((result.status, result.kind, result.tool_calls_made), (Status::Error, Some(Kind::Protocol), 0));
        assert!(result.error.unwrap().as_str().starts_with("Invalid timeout: "));
    }
}

async fn r29_source_text_of_any_form() {
    assert_eq!(printed(&run("\u{feff}print('bom')").await), "bom\n");
    assert_eq!(printed(&run("if True:\r\n\tprint('crlf')\r\n").await), "crlf\n");
    // The source is UTF-8 bytes, and a cookie says how they are read, as in a file.
    assert_eq!(printed(&run("# coding: latin-1\nprint('é')").await), "Ã©\n");
    let syntax = run("print(1)\nif").await;
    assert_eq!((syntax.status, syntax.kind, syntax.exit_code), (Status::Error, Some(Kind::Script), Some(1)));
    assert_eq!(
        syntax.error.unwrap().as_str(),
        "  File \"script.py\", line 2\n    if\n      ^\nSyntaxError: invalid syntax\n"
    );
}

async fn limits_are_enforced_per_run() {
    let small = configured(|config| config.limits.memory = Some(128));
    let code = "x = bytearray(100 << 20)";
    assert_eq!(small.execute(Request::new(code)).await.kind, Some(Kind::Memory));
    assert_eq!(run(code).await.status, Status::Success);
    let forged = run("raise MemoryError").await;
    assert_eq!(forged.kind, Some(Kind::Script), "no script can forge the kind");
}

async fn the_standard_library_imports() {
    let code = "\
import importlib
names = '''abc argparse array ast asyncio base64 binascii bisect bz2 calendar cmath codecs collections concurrent.futures configparser contextlib
contextvars copy csv dataclasses datetime dbm.dumb decimal difflib dis email.message enum errno filecmp fnmatch fractions functools gc getpass gettext glob
graphlib gzip hashlib heapq hmac html html.parser http http.client http.cookies imaplib importlib.metadata inspect io ipaddress itertools json keyword linecache
locale logging logging.handlers lzma mailbox marshal math mimetypes netrc numbers operator optparse os pathlib pdb pickle pickletools pkgutil platform plistlib
posixpath pprint profile pstats py_compile pyclbr queue quopri random re reprlib rlcompleter runpy sched secrets select selectors shelve shlex shutil
signal site smtplib socket socketserver sqlite3 stat statistics string stringprep struct subprocess symtable sys sysconfig tarfile tempfile textwrap threading time
timeit token tokenize tomllib trace traceback tracemalloc types typing unicodedata unittest unittest.mock urllib.parse urllib.request uuid warnings wave
weakref webbrowser wsgiref.util xml.dom.minidom xml.etree.ElementTree xml.sax xmlrpc.client zipapp zipfile zipimport zlib zoneinfo'''.split()
for name in names:
    try: importlib.import_module(name)
    except Exception as e: print(name, repr(e))
print(len(names))";
    assert_eq!(printed(&run(code).await), "144\n");
}

async fn compression_hashes_and_databases_work() {
    let code = "\
import zlib, bz2, lzma, gzip, hashlib, sqlite3, tempfile, zoneinfo, datetime, json
data = b'glove' * 10000
for m in (zlib, bz2, lzma, gzip): assert m.decompress(m.compress(data)) == data
print(hashlib.pbkdf2_hmac('sha256', b'password', b'salt', 2, 20).hex())
print(hashlib.scrypt(b'password', salt=b'NaCl', n=16, r=8, p=1, dklen=16).hex())
print(hashlib.sha256(b'').hexdigest()[:16], hashlib.blake2b(b'').hexdigest()[:16], hashlib.md5(b'').hexdigest()[:16])
db = sqlite3.connect(tempfile.mktemp())
db.execute('create table t(a, b)'); db.executemany('insert into t values(?, ?)', [(i, i * i) for i in range(100)]); db.commit()
print(db.execute('select sum(b) from t').fetchone()[0], sqlite3.connect(':memory:').execute('select sqrt(16)').fetchone()[0])
print(datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Paris')).isoformat(), len(zoneinfo.available_timezones()) > 500)
with tempfile.NamedTemporaryFile('w+') as f: f.write('x'); f.seek(0); print(f.read())";
    let hashes = hex_lines();
    assert_eq!(printed(&run(code).await), format!("{hashes}328350 4.0\n2026-07-01T00:00:00+02:00 True\nx\n"));
}

/// RFC 6070's PBKDF2 vector with SHA-256, and known digests of the empty text; the scrypt value is from OpenSSL.
fn hex_lines() -> String {
    [
        "ae4d0c95af6b46d32d0adff928f06dd02a303f8e",
        "f5dfb3972e7908b22410c5c5f3788907",
        "e3b0c44298fc1c14 786a02f742015903 d41d8cd98f00b204",
        "",
    ]
    .join("\n")
}

async fn asyncio_works() {
    let code = "\
import asyncio, time
async def worker(q, out):
    while (item := await q.get()) is not None:
        await asyncio.sleep(0.01); out.append(item)
async def main():
    q, out = asyncio.Queue(), []
    async with asyncio.TaskGroup() as g:
        for _ in range(3): g.create_task(worker(q, out))
        for i in range(9): await q.put(i)
        for _ in range(3): await q.put(None)
    print(sorted(out))
    try: await asyncio.wait_for(asyncio.sleep(10), 0.05)
    except TimeoutError: print('timeout')
    try:
        async with asyncio.timeout(0.05): await asyncio.Event().wait()
    except TimeoutError: print('timeout')
    t = asyncio.create_task(asyncio.sleep(10)); t.cancel()
    try: await t
    except asyncio.CancelledError: print('cancelled')
    loop = asyncio.get_running_loop(); t = time.monotonic()
    await asyncio.gather(*(asyncio.sleep(0.2) for _ in range(10)))
    print(time.monotonic() - t < 1)
asyncio.run(main())
await asyncio.sleep(0)
print('top')";
    assert_eq!(printed(&run(code).await), "[0, 1, 2, 3, 4, 5, 6, 7, 8]\ntimeout\ntimeout\ncancelled\nTrue\ntop\n");
}

async fn c7_a_tool_may_run_another_script() {
    use gloveport::tool::{Effect, ToolSpec, tool_fn};
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Code {
        code: String,
    }
    let inner = sandbox();
    let nested =
        tool_fn(ToolSpec::new::<Code>("nested", "Runs a script.").effect(Effect::Read), move |args: Code, _| {
            let inner = inner.clone();
            async move {
                Ok(serde_json::from_str(&inner.execute(Request::new(args.code)).await.to_json()).unwrap_or_default())
            }
        });
    let outer = crate::harness::builder().tool(nested).build().expect("a sandbox");
    let code = "from hermes_tools import nested\nprint(nested('print(6 * 7)')['output'])";
    assert_eq!(printed(&outer.execute(Request::new(code)).await), "42\n\n");
}

async fn hints_name_the_remedy() {
    let hint = |code: &'static str| async move {
        sandbox().execute(Request::new(code).hints(true)).await.hint.map(String::from)
    };
    assert_eq!(hint("print(1)").await, None);
    assert!(hint("import pandas").await.expect("a hint").starts_with("Packages can't be installed here."));
    assert!(hint("from hermes_tools import nope").await.expect("a hint").starts_with("Import only the tools"));
    assert!(
        hint("import json\nfrom hermes_tools import echo\njson.loads(echo({}))")
            .await
            .expect("a hint")
            .contains("json_parse")
    );
    assert_eq!(run("import pandas").await.hint, None, "only when asked for");
}

async fn the_whole_output_goes_to_a_file_where_that_is_configured() {
    let dir = tempfile::tempdir_in(crate::harness::scratch()).expect("a temporary directory");
    let spilling = configured(|config| config.output.spill = Some(dir.path().join("new")));
    let short = spilling.execute(Request::new("print('x' * 1000)")).await;
    assert_eq!(short.spill_path, None, "what the result shows whole needs no file");
    let key = ["ghp_", &"aB3dE5fG7h".repeat(4)[..36]].concat();
    let long = spilling.execute(Request::new(format!("print('x' * 30000)\nprint('{key}')\nprint('y' * 30000)"))).await;
    let path = long.spill_path.expect("a file").into_string();
    let text = std::fs::read_to_string(&path).expect("the file");
    assert_eq!(text, format!("{}\n[REDACTED:github_token]\n{}\n", "x".repeat(30_000), "y".repeat(30_000)));
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(&path).expect("the file").mode() & 0o777, 0o600);
}

/// A canary that the host knows, planted wherever a script can put text; no string that leaves may hold a piece of it.
async fn s10_a_planted_secret_shows_in_no_sink() {
    let canary = "Zq7-canary-Xw4-value";
    let mut config = gloveport::Config::default();
    config.env.pass = vec!["PLANTED_TOKEN".into()];
    let sandbox = crate::harness::builder()
        .config(config)
        .environment([("PLANTED_TOKEN".into(), canary.into())])
        .build()
        .expect("a sandbox");
    let scripts = [
        format!("print('{canary}')"),
        format!("import sys; sys.exit('{canary}')"),
        format!("raise RuntimeError('{canary}')"),
        format!("x = '{canary}'\nx.nothing"),
        format!("if True print('{canary}')"),
        format!("import {}", canary.replace('-', "_")),
        format!("from hermes_tools import fail, echo\nprint(fail('{canary}'), echo('{canary}'))"),
        format!("import _gloveport\n_gloveport.call(b'\\x01{{\"tool\": \"{canary}\", \"args\": {{}}}}')"),
        format!("print('{canary}', end='')\nwhile True: pass"),
        format!("print('\\x1b[1m'.join('{canary}'))"),
    ];
    for script in scripts {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let sink = seen.clone();
        let controls = gloveport::Controls {
            live: Some(std::sync::Arc::new(move |_, text| sink.lock().expect("a lock").push_str(text.as_str()))),
            ..gloveport::Controls::default()
        };
        let request =
            Request::new(&script).list_tool_calls(true).hints(true).timeout_secs(5.0).filename(format!("{canary}.py"));
        let json = sandbox.execute_with(request, controls).await.to_json();
        let live = seen.lock().expect("a lock").clone();
        for i in 0..=canary.len() - 8 {
            let piece = &canary[i..i + 8];
            assert!(!json.contains(piece) && !live.contains(piece), "{piece} of {script}: {json} {live}");
        }
    }
}
