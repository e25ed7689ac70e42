//! Redacting any text is idempotent, and the known value is never in it.
#![no_main]

use std::sync::LazyLock;

use gloveport::output::Redactor;
use libfuzzer_sys::fuzz_target;

const VALUE: &str = "zq9-Torn+widget/41";

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::builder().known("X", VALUE.into()).build().unwrap());

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let once = REDACTOR.clean(&text);
    assert!(!once.as_str().contains(VALUE));
    assert_eq!(REDACTOR.clean(once.as_str()), once);
    let preview = REDACTOR.preview(&text, 80);
    assert!(preview.as_str().chars().count() <= 80);
});
