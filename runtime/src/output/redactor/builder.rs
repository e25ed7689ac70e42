//! Building a redactor: what is switched on, and what the user adds.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use secrecy::{ExposeSecret, SecretString};

use super::{Redactor, Rules, SHAPES};
use crate::output::assign;
use crate::output::config::{ExtraRule, MaskStyle, RedactError};
use crate::output::families::{self, FAMILIES};
use crate::output::known::{self, Known, Refused, Value};
use crate::output::mask;

/// Longest user pattern, in bytes.
const MAX_PATTERN: usize = 1000;
/// Most user patterns.
const MAX_PATTERNS: usize = 64;
/// Largest compiled user pattern, in bytes.
const PATTERN_MEMORY: usize = 1 << 20;

/// Builds a [`Redactor`].
#[derive(Debug)]
pub struct RedactorBuilder {
    is_enabled: bool,
    style: MaskStyle,
    families: Vec<String>,
    extra: Vec<ExtraRule>,
    known: Vec<(String, SecretString)>,
}

impl Default for RedactorBuilder {
    fn default() -> Self {
        Self { is_enabled: true, style: MaskStyle::Full, families: Vec::new(), extra: Vec::new(), known: Vec::new() }
    }
}

impl RedactorBuilder {
    /// Whether anything is masked. Terminal control is stripped either way.
    #[must_use]
    pub fn enabled(mut self, is_enabled: bool) -> Self {
        self.is_enabled = is_enabled;
        self
    }

    /// How secrets are masked.
    #[must_use]
    pub fn mask(mut self, style: MaskStyle) -> Self {
        self.style = style;
        self
    }

    /// Which families are on. An empty list means the default ones; else `default` stands for those, a name switches a
    /// family on, and a name with `-` before it switches one off.
    #[must_use]
    pub fn families(mut self, families: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.families = families.into_iter().map(Into::into).collect();
        self
    }

    /// Patterns of the user, searched on the same view as the families.
    #[must_use]
    pub fn extra(mut self, rules: impl IntoIterator<Item = ExtraRule>) -> Self {
        self.extra.extend(rules);
        self
    }

    /// A value that the host knows to be secret, and a name for diagnostics.
    #[must_use]
    pub fn known(mut self, name: impl Into<String>, value: SecretString) -> Self {
        self.known.push((name.into(), value));
        self
    }

    /// Builds the redactor.
    ///
    /// # Errors
    ///
    /// If a family is unknown, a user pattern is refused, or the known values are too long for one automaton.
    pub fn build(self) -> Result<Redactor, RedactError> {
        let names = selected(&self.families)?;
        let extra = compile(self.extra)?;
        let mut values = Vec::new();
        let mut refused = Vec::new();
        add_known(self.known, &mut values, &mut refused);
        let rules = Rules {
            is_enabled: self.is_enabled,
            style: self.style,
            families: families::Matcher::new(|family| names.contains(&family.name))
                .map_err(RedactError::TooManyValues)?,
            shapes: SHAPES.iter().copied().filter(|shape| names.contains(shape)).collect(),
            keywords: assign::Keywords::new().map_err(RedactError::TooManyValues)?,
            labels: all_names().map(str::to_owned).chain(extra.iter().map(|(name, _)| name.clone())).collect(),
            extra,
        };
        Ok(Redactor {
            rules: Arc::new(rules),
            known: Arc::new(Known::new(&values).map_err(RedactError::TooManyValues)?),
            values: Arc::new(values),
            refused: Arc::new(refused),
        })
    }
}

pub(super) fn add_known(
    given: impl IntoIterator<Item = (String, SecretString)>,
    values: &mut Vec<Value>,
    refused: &mut Vec<(String, Refused)>,
) {
    for (name, value) in given {
        match known::refusal(value.expose_secret()) {
            Some(reason) => refused.push((name, reason)),
            None => values.push(Value { name, value }),
        }
    }
}

/// Names of all families and shapes.
fn all_names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.name).chain(SHAPES.iter().copied())
}

/// The names that a list of families switches on.
fn selected(families: &[String]) -> Result<Vec<&'static str>, RedactError> {
    let defaults =
        || FAMILIES.iter().filter(|family| family.is_default).map(|family| family.name).chain(SHAPES.iter().copied());
    let known_name = |name: &str| all_names().find(|known| *known == name);
    let only_removes = families.iter().all(|entry| entry.starts_with('-'));
    let mut names: Vec<&'static str> = if only_removes { defaults().collect() } else { Vec::new() };
    for entry in families {
        let name = entry.strip_prefix('-').unwrap_or(entry);
        if name == "default" {
            names.extend(defaults());
            continue;
        }
        let name = known_name(name).ok_or_else(|| RedactError::UnknownFamily { name: name.to_owned() })?;
        names.retain(|other| *other != name);
        if !entry.starts_with('-') {
            names.push(name);
        }
    }
    Ok(names)
}

fn compile(rules: Vec<ExtraRule>) -> Result<Vec<(String, Regex)>, RedactError> {
    if rules.len() > MAX_PATTERNS {
        return Err(RedactError::TooManyPatterns { count: rules.len() });
    }
    rules.into_iter().map(compile_one).collect()
}

fn compile_one(rule: ExtraRule) -> Result<(String, Regex), RedactError> {
    let ExtraRule { name, regex } = rule;
    if name.is_empty() || name.len() > mask::MAX_LABEL || !name.bytes().all(mask::is_label_byte) {
        return Err(RedactError::BadName { name });
    }
    if regex.len() > MAX_PATTERN {
        return Err(RedactError::LongPattern { length: regex.len(), name });
    }
    let compiled = RegexBuilder::new(&regex).size_limit(PATTERN_MEMORY).dfa_size_limit(PATTERN_MEMORY).build();
    match compiled {
        Err(source) => Err(RedactError::BadPattern { name, source: Box::new(source) }),
        Ok(compiled) if compiled.is_match(b"") => Err(RedactError::EmptyMatch { name }),
        Ok(compiled) => Ok((name, compiled)),
    }
}
