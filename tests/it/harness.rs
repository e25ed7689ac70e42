//! Sandboxes for tests, and how a test function becomes a trial.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gloveport::config::ImageChoice;
use gloveport::job::{Access, Grant};
use gloveport::wasi::{Allocation, WasiBackend, WasiOptions};
use gloveport::{Config, Request, RunResult, Sandbox, SandboxBuilder};
use gloveport_tests::probe_tools;
use libtest_mimic::{Failed, Trial};

/// Where everything that tests write goes.
pub(crate) fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// One runtime for all tests.
pub(crate) fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a tokio runtime"))
}

/// The image that all tests run in, where it is not slim: the name of one that was built.
const IMAGE_VARIABLE: &str = "GLOVEPORT_TEST_IMAGE";

/// The options of the local backend in tests.
pub(crate) fn options(allocation: Allocation) -> WasiOptions {
    let image = std::env::var(IMAGE_VARIABLE).map_or(ImageChoice::Slim, |text| text.parse().expect("an image's name"));
    let built = if image == ImageChoice::Slim { None } else { Some(images_directory()) };
    WasiOptions {
        cache_dir: built.unwrap_or_else(|| scratch().join("cache")),
        scratch_dir: scratch().join("runs"),
        allocation,
        max_concurrent: 100,
        image,
    }
}

/// The cache of the user who runs the tests: images take minutes to build, so those that are there are used.
pub(crate) fn images_directory() -> PathBuf {
    let environment: Vec<_> = std::env::vars_os().collect();
    WasiOptions::from_environment(&environment).cache_dir
}

/// A sandbox with the probe tools on the science image, or why there is none.
pub(crate) fn science() -> Result<Sandbox, String> {
    static SANDBOX: OnceLock<Result<Sandbox, String>> = OnceLock::new();
    SANDBOX.get_or_init(|| on_image(images_directory(), ImageChoice::Named("science".to_owned()))).clone()
}

/// A sandbox with the probe tools on an image of a cache, or why there is none.
pub(crate) fn on_image(cache_dir: PathBuf, image: ImageChoice) -> Result<Sandbox, String> {
    let options = WasiOptions { cache_dir, image, ..options(Allocation::OnDemand) };
    let backend = WasiBackend::new(&options).map_err(|error| error.to_string())?;
    Ok(Sandbox::builder().backend(Arc::new(backend)).tools(probe_tools()).build().expect("a sandbox on the image"))
}

/// The local backend that all tests share.
pub(crate) fn backend() -> Arc<WasiBackend> {
    static BACKEND: OnceLock<Arc<WasiBackend>> = OnceLock::new();
    let make = || Arc::new(WasiBackend::new(&options(Allocation::OnDemand)).expect("the local backend starts"));
    Arc::clone(BACKEND.get_or_init(make))
}

/// A sandbox with the probe tools on the shared backend.
pub(crate) fn builder() -> SandboxBuilder {
    Sandbox::builder().backend(backend()).tools(probe_tools())
}

/// A sandbox with the probe tools and nothing granted.
pub(crate) fn sandbox() -> Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| builder().build().expect("a sandbox")).clone()
}

/// A sandbox with a directory granted.
pub(crate) fn granted(path: &Path, access: Access) -> Sandbox {
    builder().grant(Grant { path: path.to_path_buf(), access }).build().expect("a sandbox with a grant")
}

/// A sandbox with another configuration.
pub(crate) fn configured(change: impl FnOnce(&mut Config)) -> Sandbox {
    let mut config = Config::default();
    change(&mut config);
    builder().config(config).build().expect("a configured sandbox")
}

/// Runs a script with every default.
pub(crate) async fn run(code: &str) -> RunResult {
    sandbox().execute(Request::new(code)).await
}

/// What a script printed; the test fails if it did not succeed.
#[track_caller]
pub(crate) fn printed(result: &RunResult) -> String {
    assert_eq!(result.status, gloveport::Status::Success, "{}", result.to_json());
    result.output.clone().map(String::from).unwrap_or_default()
}

/// An async test function as a trial.
pub(crate) fn trial<F, Fut>(name: String, test: F) -> Trial
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Trial::test(name, move || {
        // A task of its own: a failed assertion is that task's panic, and becomes this trial's failure.
        runtime().block_on(async { tokio::spawn(test()).await }).map_err(|error| match error.try_into_panic() {
            Ok(panic) => Failed::from(panic_text(panic.as_ref())),
            Err(error) => Failed::from(error.to_string()),
        })
    })
}

/// The same on the science image; ignored with its reason where that is not built.
pub(crate) fn science_trial<F, Fut>(name: String, test: F) -> Trial
where
    F: FnOnce(Sandbox) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    match science() {
        Ok(sandbox) => trial(name, move || test(sandbox)),
        Err(reason) => Trial::test(format!("{name} (ignored: {reason})"), || Ok(())).with_ignored_flag(true),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "panicked".into())
}

/// Trials of async functions of one module: `trials![a, b]`.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$($crate::harness::trial(format!("{module}::{}", stringify!($name)), $name)),*]
        }
    };
}
pub(crate) use trials;
