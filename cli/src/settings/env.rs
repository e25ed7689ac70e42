//! Settings from variables: `GLOVEPORT_LIMITS_TIMEOUT=10` is `[limits] timeout = 10`.

use std::cell::LazyCell;

use toml::{Table, Value};

use super::keys::{Shape, nearest};
use super::{Keys, Layer, SettingsError, parse_value};
use crate::Host;

const PREFIX: &str = "GLOVEPORT_";
/// Variables of that prefix that are no settings; the last ones are read by the build and by the tests, and may still be set when the program runs.
const OTHER_USES: &[&str] = &[
    "GLOVEPORT_CONFIG",
    "GLOVEPORT_LOG",
    "GLOVEPORT_BLESS",
    "GLOVEPORT_ENGINES",
    "GLOVEPORT_GUEST_CPU",
    "GLOVEPORT_TEST_HOST",
];

/// One layer for each variable, so that each is reported under its own name.
pub(super) fn read(host: &Host, keys: &LazyCell<Keys>) -> Result<Vec<Layer>, SettingsError> {
    let names = LazyCell::new(|| -> Vec<(String, &str, Shape)> {
        keys.leaves().iter().map(|(path, shape)| (variable(path), path.as_str(), *shape)).collect()
    });
    let mut layers = Vec::new();
    for (name, value) in &host.environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX) && !OTHER_USES.contains(name)) else {
            continue;
        };
        let Some((_, path, shape)) = names.iter().find(|(known, ..)| known == name) else {
            let known = names.iter().map(|(known, ..)| known.as_str()).chain(OTHER_USES.iter().copied());
            return Err(SettingsError::UnknownVariable { name: name.to_owned(), nearest: nearest(name, known, '\0') });
        };
        let wrong = |problem: &str| SettingsError::Value {
            place: "environment".to_owned(),
            key: name.to_owned(),
            problem: problem.to_owned(),
        };
        let text = value.to_str().ok_or_else(|| wrong("is not UTF-8 text"))?;
        let value = read_value(text, *shape).ok_or_else(|| wrong("can't be read as a TOML value"))?;
        layers.push(Layer { place: name.to_owned(), table: nested(path, value) });
    }
    // The order of variables in an environment means nothing.
    layers.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(layers)
}

fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "_").to_uppercase())
}

fn read_value(text: &str, shape: Shape) -> Option<Value> {
    match shape {
        Shape::Text => Some(Value::String(text.to_owned())),
        Shape::Texts if !text.trim_start().starts_with('[') => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Some(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()))
        }
        Shape::Texts | Shape::Other => parse_value(text.trim()),
    }
}

/// `a.b.c` and a value as tables in tables.
fn nested(path: &str, value: Value) -> Table {
    match path.split_once('.') {
        Some((first, rest)) => Table::from_iter([(first.to_owned(), Value::Table(nested(rest, value)))]),
        None => Table::from_iter([(path.to_owned(), value)]),
    }
}
