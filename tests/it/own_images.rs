//! Images of a user's own: packages and prepared data in the snapshot, from the build to the run.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gloveport::Request;
use gloveport::config::ImageChoice;
use gloveport::wasi::images;
use gloveport::wasi::images::making::{self, Base, Place, Recipe};
use libtest_mimic::Trial;

use crate::harness::{self, printed};

pub(crate) fn trials() -> Vec<Trial> {
    vec![harness::trial("own_images::packages_and_prepared_data_are_there_in_each_run".into(), own_image)]
}

const PACKAGE: &str = "\
import pathlib, random
rng = random.Random(5)
TEXT = (pathlib.Path(__file__).parent / 'text.txt').read_text()
def hello(name):
    return f'hello {name}, {TEXT}'
def fail():
    raise ValueError('of the package')
";
const PREPARE: &str = "\
import random
import greet
table = {n: n * n for n in range(1000)}
rng = random.Random(1)
said = greet.hello('builder')
";
const SCRIPT: &str = "\
import sys
print('greet' in sys.modules, 'prepared' in sys.modules)
import greet, prepared
from hermes_tools import add
print(greet.hello('you'), prepared.said, prepared.table[12], add(2, 3))
print(greet.rng.random(), prepared.rng.random(), file=sys.stderr)
prepared.table.clear()
";

async fn own_image() {
    let dir = tempfile::tempdir().expect("a folder");
    let cache = dir.path().join("cache");
    let built = tokio::task::spawn_blocking({
        let (dir, cache) = (dir.path().to_path_buf(), cache.clone());
        move || build_twice(&dir, &cache)
    });
    built.await.expect("the build does not panic");

    let mine = harness::on_image(cache.clone(), ImageChoice::Named("mine".to_owned())).expect("the backend starts");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let result = mine.execute(Request::new(SCRIPT)).await;
        let wanted = "True True\nhello you, a data file hello builder, a data file 144 5\n";
        assert_eq!(printed(&result), wanted, "{}", result.to_json());
        let stderr = result.stderr.expect("what was printed there").text;
        seen.extend(stderr.as_str().split_whitespace().map(str::to_owned));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "generators that the build made are fresh in each run: {seen:?}");
    let failed = mine.execute(Request::new("import greet\ngreet.fail()")).await;
    let report = failed.error.expect("a report").to_string();
    assert!(
        report.contains("site/greet/__init__.py\", line 7, in fail\n    raise ValueError('of the package')"),
        "{report}"
    );

    // A second image under another name: the first one's machine code with a manifest of its own.
    copy_as(&cache, "other", &["othermod", "shared"]);
    copy_as(&cache, "all", &["greet", "othermod", "prepared", "shared"]);
    let auto = harness::on_image(cache.clone(), ImageChoice::Auto).expect("the backend starts");
    for (code, image) in [
        ("print('greet')", "slim"),
        ("import greet", "mine"),
        ("try:\n    import othermod\nexcept ImportError: pass", "other"),
        ("import greet\ntry:\n    import othermod\nexcept ImportError: pass", "all"),
    ] {
        let result = auto.execute(Request::new(code)).await;
        assert_eq!(result.image.expect("an image").name, image, "{code}");
    }
}

/// The same inputs give the same image, and a wheel that is refused leaves the image that is there.
fn build_twice(dir: &Path, cache: &Path) {
    let place = Place::lock(&images::directory(cache)).expect("nobody else builds here");
    let prepare = dir.join("prepare.py");
    fs::write(&prepare, PREPARE).expect("written");
    let recipe = Recipe {
        name: "mine".to_owned(),
        from: Base::Slim,
        wheels: vec![wheel(dir, "greet", &[("greet/__init__.py", PACKAGE), ("greet/text.txt", "a data file")])],
        imports: vec!["greet".to_owned()],
        run: Some(prepare),
    };
    let quiet = |_: &str, _: u64| ();
    let first = making::build(&recipe, &place, &quiet).expect("built");
    assert_eq!(first.modules, ["greet", "prepared"]);
    assert!(!first.written.is_empty() && !first.exceptions);
    let native = wheel(dir, "native", &[("native/fast.so", "\u{7f}ELF")]);
    let refused = Recipe { wheels: vec![native], ..recipe.clone() };
    let error = making::build(&refused, &place, &quiet).expect_err("refused").to_string();
    assert!(
        error.ends_with(
            "carries native code (native/fast.so), which can't run here: only pure-Python wheels can be added"
        )
    );
    let second = making::build(&recipe, &place, &quiet).expect("built again");
    assert_eq!((second.snapshot_sha256, second.sha256), (first.snapshot_sha256, first.sha256));
}

fn wheel(dir: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let path = dir.join(format!("{name}-1.0-py3-none-any.whl"));
    let mut writer = zip::ZipWriter::new(fs::File::create(&path).expect("a file"));
    for (file, text) in files {
        writer.start_file(*file, zip::write::SimpleFileOptions::default()).expect("an entry");
        writer.write_all(text.as_bytes()).expect("written");
    }
    writer.finish().expect("finished");
    path
}

fn copy_as(cache: &Path, name: &str, modules: &[&str]) {
    let stored = images::find(cache, "mine").expect("the image");
    let target = stored.directory.with_file_name(format!("{name}-000000000000"));
    fs::create_dir(&target).expect("a folder");
    let mut manifest = stored.manifest;
    name.clone_into(&mut manifest.name);
    manifest.library = false;
    manifest.modules = modules.iter().map(|&module| module.to_owned()).collect();
    fs::write(target.join("image.json"), serde_json::to_vec(&manifest).expect("JSON")).expect("written");
    fs::copy(stored.directory.join("image.cwasm"), target.join("image.cwasm")).expect("copied");
    std::os::unix::fs::symlink(target.file_name().expect("a name"), target.with_file_name(name)).expect("linked");
}
