//! `gloveport image`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gloveport::config::ImageChoice;
use gloveport::wasi::WasiOptions;
use gloveport::wasi::images::making::{
    self, Base, MEMORY_GIB, MakeError, PACKAGE, PACKAGE_VERSION, Place, Recipe, SCIENCE,
};
use gloveport::wasi::images::{self, SLIM, Stored};

use crate::Host;
use crate::args::{ImageAction, ImageBuildArgs};
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::terminal;

/// Builds, lists, removes or verifies images.
pub(crate) fn run(action: &ImageAction, host: &Host) -> Result<Exit, Complaint> {
    let cache = WasiOptions::from_environment(&host.environment).cache_dir;
    match action {
        ImageAction::Build(args) => build(args, &cache, host),
        ImageAction::List => Ok(list(&cache)),
        ImageAction::Remove { name } => remove(name, &cache),
        ImageAction::Verify { name } => verify(name.as_deref(), &cache),
    }
}

fn build(args: &ImageBuildArgs, cache: &Path, host: &Host) -> Result<Exit, Complaint> {
    let is_science = args.name == SCIENCE;
    let from_science = match args.from.as_deref() {
        _ if is_science => true,
        None | Some(SLIM) => false,
        Some(SCIENCE) => true,
        Some(other) => return Err(Complaint::usage(format!("--from: {other:?} is neither `slim` nor `science`"))),
    };
    check(args, is_science)?;
    let place = Place::lock(&images::directory(cache)).map_err(failed)?;
    let began = Instant::now();
    if from_science {
        note(&format!("this takes two to three minutes on two cores and up to {MEMORY_GIB} GB of memory"));
    }
    let absolute = |path: &PathBuf| host.cwd.join(path);
    let given = if is_science { args.wheel.first() } else { args.science_wheel.as_ref() };
    let fetched = match given {
        None if from_science => {
            note(&format!("downloading {PACKAGE} {PACKAGE_VERSION} (98 MB)"));
            Some(making::fetch(&place).map_err(failed)?)
        }
        _ => None,
    };
    let package = given.map(absolute).or_else(|| fetched.as_ref().map(making::Fetched::path));
    let recipe = Recipe {
        name: args.name.clone(),
        from: package.map_or(Base::Slim, Base::Science),
        wheels: if is_science { Vec::new() } else { args.wheel.iter().map(absolute).collect() },
        imports: args.import.clone(),
        run: args.run.as_ref().map(absolute),
    };
    let progress = |step: &str, seconds: u64| note(&format!("{step} (about {seconds} s)"));
    let made = making::build(&recipe, &place, &progress).map_err(failed)?;
    note(&format!("done in {:.0} s: `gloveport run --image {}`", began.elapsed().as_secs_f64(), made.name));
    Ok(terminal::print(&format!("{}@sha256:{}\n", made.name, made.sha256)))
}

/// What can't be asked for.
fn check(args: &ImageBuildArgs, is_science: bool) -> Result<(), Complaint> {
    if !ImageChoice::is_name(&args.name) {
        let name = &args.name;
        return Err(Complaint::usage(format!(
            "{name:?} can't be the name of an image: small letters, digits, `-` and `_`, and neither `slim` nor `auto`"
        )));
    }
    if is_science {
        let own = args.from.is_some() || args.science_wheel.is_some() || !args.import.is_empty() || args.run.is_some();
        if own || args.wheel.len() > 1 {
            return Err(Complaint::usage(
                "the image `science` is what it is; give an image of your own another name, and `--from science`",
            ));
        }
    }
    Ok(())
}

fn note(text: &str) {
    terminal::note("image", &terminal::clean(text));
}

fn failed(error: MakeError) -> Complaint {
    match error {
        MakeError::Guest { step, source } => Complaint::setup(format!("{step} failed: {source:#}")),
        other => Complaint::setup(other.to_string()),
    }
}

fn list(cache: &Path) -> Exit {
    let mut text = String::from("slim      Python 3.13, the standard library; part of this program\n");
    for Stored { manifest, .. } in images::list(cache) {
        let size = manifest.bytes >> 20;
        text.push_str(&format!(
            "{:<9} Python {}, from {}, {} MB of memory, {size} MB on disk, sha256:{}\n",
            manifest.name,
            manifest.python,
            manifest.from,
            manifest.memory,
            &manifest.sha256.get(..12).unwrap_or_default(),
        ));
    }
    terminal::print(&text)
}

fn remove(name: &str, cache: &Path) -> Result<Exit, Complaint> {
    if !ImageChoice::is_name(name) {
        return Err(Complaint::usage(format!("{name:?} is no image that can be removed")));
    }
    let place = Place::lock(&images::directory(cache)).map_err(failed)?;
    match making::remove(&place, name).map_err(failed)? {
        true => Ok(Exit::Success),
        false => Err(Complaint::setup(format!("there is no image {name}"))),
    }
}

fn verify(name: Option<&str>, cache: &Path) -> Result<Exit, Complaint> {
    let stored = match name {
        Some(name) => vec![images::find(cache, name).map_err(|error| Complaint::setup(error.to_string()))?],
        None => images::list(cache),
    };
    for image in stored {
        image.verify().map_err(|error| Complaint::setup(error.to_string()))?;
        if terminal::print(&format!("{}: whole, and this program can run it\n", image.manifest.name)) != Exit::Success {
            return Ok(Exit::BrokenPipe);
        }
    }
    Ok(Exit::Success)
}
