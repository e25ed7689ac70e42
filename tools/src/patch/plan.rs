//! What the operations of a patch come to, worked out on the texts alone. Nothing is written before everything is known to work.

use std::collections::BTreeMap;

use gloveport::workspace::Change;

use super::diff::{FileDiff, unified};
use super::v4a::{Operation, update};
use crate::text::Encoding;

/// A file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// It is not there.
    Missing,
    /// Its text.
    Text { text: String, encoding: Encoding },
    /// It is there, and this is why its text is not known. It can still be deleted or moved.
    Opaque(String),
    /// It can't be used at all.
    Refused(String),
}

/// The state of a path while the operations are played.
#[derive(Debug, Clone)]
struct State {
    loaded: Loaded,
    /// The path whose file is here now, if it was moved.
    origin: String,
}

/// What a patch comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    pub(crate) diff: String,
    pub(crate) modified: Vec<String>,
    pub(crate) created: Vec<String>,
    pub(crate) deleted: Vec<String>,
}

/// The paths that the operations name, each once.
pub(crate) fn paths(operations: &[Operation]) -> Vec<&str> {
    let mut paths: Vec<&str> = Vec::new();
    for operation in operations {
        let named = match operation {
            Operation::Update { path, .. } | Operation::Add { path, .. } | Operation::Delete { path } => [Some(path), None],
            Operation::Move { from, to } => [Some(from), Some(to)],
        };
        for path in named.into_iter().flatten() {
            if !paths.contains(&path.as_str()) {
                paths.push(path);
            }
        }
    }
    paths
}

/// Plays the operations in order on what was loaded, later ones seeing what earlier ones did. All problems are told at once.
pub(crate) fn plan(operations: &[Operation], files: &BTreeMap<String, Loaded>) -> Result<Plan, Vec<String>> {
    let mut states: BTreeMap<String, State> =
        files.iter().map(|(path, loaded)| (path.clone(), State { loaded: loaded.clone(), origin: path.clone() })).collect();
    let mut problems = Vec::new();
    for operation in operations {
        if let Err(found) = play(operation, &mut states) {
            let name = describe(operation);
            problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
        }
    }
    if problems.is_empty() { Ok(settle(files, &states)) } else { Err(problems) }
}

fn describe(operation: &Operation) -> String {
    match operation {
        Operation::Update { path, .. } => format!("Update File: {path}"),
        Operation::Add { path, .. } => format!("Add File: {path}"),
        Operation::Delete { path } => format!("Delete File: {path}"),
        Operation::Move { from, to } => format!("Move File: {from} -> {to}"),
    }
}

fn play(operation: &Operation, states: &mut BTreeMap<String, State>) -> Result<(), Vec<String>> {
    let one = |text: &str| vec![text.to_owned()];
    let missing = || one("file not found");
    match operation {
        Operation::Update { path, hunks } => {
            let state = states.get_mut(path).ok_or_else(missing)?;
            match &mut state.loaded {
                Loaded::Text { text, .. } => *text = update(text, hunks)?,
                Loaded::Missing => return Err(missing()),
                Loaded::Opaque(reason) | Loaded::Refused(reason) => return Err(one(reason)),
            }
        }
        Operation::Add { path, content } => {
            let state = states.get_mut(path).ok_or_else(missing)?;
            match &state.loaded {
                Loaded::Missing => {}
                Loaded::Refused(reason) => return Err(one(reason)),
                Loaded::Text { .. } | Loaded::Opaque(_) => return Err(one("it exists already")),
            }
            let loaded = Loaded::Text { text: content.clone(), encoding: Encoding::Utf8 { bom: false } };
            *state = State { loaded, origin: path.clone() };
        }
        Operation::Delete { path } => {
            let state = states.get_mut(path).ok_or_else(missing)?;
            match &state.loaded {
                Loaded::Missing => return Err(missing()),
                Loaded::Refused(reason) => return Err(one(reason)),
                _ => state.loaded = Loaded::Missing,
            }
        }
        Operation::Move { from, to } => {
            let moved = match states.get(from).map(|state| &state.loaded) {
                None | Some(Loaded::Missing) => return Err(missing()),
                Some(Loaded::Refused(reason)) => return Err(one(reason)),
                Some(_) => states.get(from).cloned().ok_or_else(missing)?,
            };
            match states.get(to).map(|state| &state.loaded) {
                Some(Loaded::Missing) => {}
                Some(Loaded::Refused(reason)) => return Err(one(reason)),
                _ => return Err(vec![format!("'{to}' exists already")]),
            }
            states.insert(from.clone(), State { loaded: Loaded::Missing, origin: from.clone() });
            states.insert(to.clone(), moved);
        }
    }
    Ok(())
}

/// The least changes from what was loaded to what the states say.
fn settle(files: &BTreeMap<String, Loaded>, states: &BTreeMap<String, State>) -> Plan {
    let mut plan = Plan::default();
    for (path, state) in states {
        let before = &files[path];
        let origin = &state.origin;
        if state.loaded != Loaded::Missing && origin != path && *before == Loaded::Missing {
            plan.moved(path, state, &files[origin]);
            continue;
        }
        let gone_elsewhere = states.iter().any(|(to, other)| to != path && other.origin == *path && other.loaded != Loaded::Missing);
        match (before, &state.loaded) {
            (a, b) if a == b && origin == path => {}
            (Loaded::Missing, Loaded::Text { text, encoding }) => plan.created(path, text, *encoding),
            (Loaded::Text { text: old, .. }, Loaded::Text { text, encoding }) => {
                plan.modified.push(path.clone());
                plan.diff.push_str(&file_diff(path, path, Some(old), Some(text)));
                plan.changes.push(write(path, text, *encoding, None));
            }
            (_, Loaded::Missing) if gone_elsewhere => {}
            (before, Loaded::Missing) => plan.deleted(path, before),
            // Deleted and added again: the new text takes the place of what was no text.
            (_, Loaded::Text { text, encoding }) => {
                plan.modified.push(path.clone());
                plan.changes.push(write(path, text, *encoding, None));
            }
            _ => {}
        }
    }
    // Removals and renames make room for what is written, so they come first.
    plan.changes.sort_by_key(|change| match change {
        Change::Remove { .. } => 0,
        Change::Rename { .. } => 1,
        Change::Write { .. } => 2,
    });
    plan
}

impl Plan {
    fn created(&mut self, path: &str, text: &str, encoding: Encoding) {
        self.created.push(path.to_owned());
        self.diff.push_str(&file_diff(path, path, None, Some(text)));
        self.changes.push(write(path, text, encoding, None));
    }

    fn deleted(&mut self, path: &str, before: &Loaded) {
        self.deleted.push(path.to_owned());
        if let Loaded::Text { text, .. } = before {
            self.diff.push_str(&file_diff(path, path, Some(text), None));
        }
        self.changes.push(Change::Remove { path: path.to_owned() });
    }

    fn moved(&mut self, path: &str, state: &State, before: &Loaded) {
        let from = &state.origin;
        self.modified.push(format!("{from} -> {path}"));
        match (before, &state.loaded) {
            (Loaded::Text { text: old, .. }, Loaded::Text { text, encoding }) if old != text => {
                self.diff.push_str(&file_diff(from, path, Some(old), Some(text)));
                self.changes.push(Change::Remove { path: from.clone() });
                self.changes.push(write(path, text, *encoding, Some(from.clone())));
            }
            _ => {
                self.diff.push_str(&file_diff(from, path, Some(""), Some("")));
                self.changes.push(Change::Rename { from: from.clone(), to: path.to_owned() });
            }
        }
    }
}

fn file_diff(old_path: &str, new_path: &str, old: Option<&str>, new: Option<&str>) -> String {
    unified(FileDiff { old_path, new_path, old, new })
}

fn write(path: &str, text: &str, encoding: Encoding, like: Option<String>) -> Change {
    Change::Write { path: path.to_owned(), content: encoding.encode(text), like }
}
