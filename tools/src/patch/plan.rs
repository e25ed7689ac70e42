//! What the operations of a patch come to, worked out on the texts alone. Nothing is written before everything is known to work.

use std::collections::BTreeMap;
use std::path::Path;

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
    /// The root that diffs leave out of paths.
    pub(crate) root: String,
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
            Operation::Update { path, .. } | Operation::Add { path, .. } | Operation::Delete { path } => {
                [Some(path), None]
            }
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
pub(crate) fn plan(
    operations: &[Operation],
    files: &BTreeMap<String, Loaded>,
    root: &str,
) -> Result<Plan, Vec<String>> {
    let mut states: BTreeMap<String, State> = files
        .iter()
        .map(|(path, loaded)| (path.clone(), State { loaded: loaded.clone(), origin: path.clone() }))
        .collect();
    let mut problems = Vec::new();
    for operation in operations {
        if let Err(found) = play(operation, &mut states) {
            let name = describe(operation);
            problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
        }
    }
    if problems.is_empty() { Ok(settle(files, &states, root)) } else { Err(problems) }
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
fn settle(files: &BTreeMap<String, Loaded>, states: &BTreeMap<String, State>, root: &str) -> Plan {
    let mut plan = Plan { root: root.to_owned(), ..Plan::default() };
    // A file that was moved to a free path. One that took the place of another is an edit of that one.
    let moved_to = |path: &str, state: &State| {
        state.loaded != Loaded::Missing && state.origin != path && files[path] == Loaded::Missing
    };
    for (path, state) in states {
        let before = &files[path];
        let moved_away = || states.iter().any(|(to, other)| other.origin == *path && moved_to(to, other));
        match (before, &state.loaded) {
            _ if moved_to(path, state) => {
                let source_stays = states[&state.origin].loaded != Loaded::Missing;
                plan.moved(path, state, &files[&state.origin], source_stays);
            }
            (a, b) if a == b => {}
            (_, Loaded::Missing) if moved_away() => {}
            (before, Loaded::Missing) => plan.deleted(path, before),
            (Loaded::Missing, Loaded::Text { text, encoding }) => plan.created(path, text, *encoding),
            (before, Loaded::Text { text, encoding }) => plan.modified(path, before, text, *encoding),
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
        self.show(path, path, None, Some(text));
        self.changes.push(write(path, text, encoding, None));
    }

    fn modified(&mut self, path: &str, before: &Loaded, text: &str, encoding: Encoding) {
        self.modified.push(path.to_owned());
        if let Loaded::Text { text: old, .. } = before {
            self.show(path, path, Some(old), Some(text));
        }
        self.changes.push(write(path, text, encoding, None));
    }

    fn deleted(&mut self, path: &str, before: &Loaded) {
        self.deleted.push(path.to_owned());
        if let Loaded::Text { text, .. } = before {
            self.show(path, path, Some(text), None);
        }
        self.changes.push(Change::Remove { path: path.to_owned() });
    }

    /// `source_stays`: something else is at the old path now.
    fn moved(&mut self, path: &str, state: &State, before: &Loaded, source_stays: bool) {
        let from = &state.origin;
        self.modified.push(format!("{from} -> {path}"));
        match (before, &state.loaded) {
            (Loaded::Text { text: old, .. }, Loaded::Text { text, encoding }) if old != text || source_stays => {
                self.show(from, path, Some(old), Some(text));
                if !source_stays {
                    self.changes.push(Change::Remove { path: from.clone() });
                }
                self.changes.push(write(path, text, *encoding, Some(from.clone())));
            }
            _ => {
                self.show(from, path, Some(""), Some(""));
                self.changes.push(Change::Rename { from: from.clone(), to: path.to_owned() });
            }
        }
    }

    fn show(&mut self, old_path: &str, new_path: &str, old: Option<&str>, new: Option<&str>) {
        let (old_path, new_path) = (&shown_path(&self.root, old_path), &shown_path(&self.root, new_path));
        self.diff.push_str(&unified(FileDiff { old_path, new_path, old, new }));
    }
}

/// The path under the root, as diffs name it.
pub(crate) fn shown_path(root: &str, path: &str) -> String {
    let below = Path::new(path).strip_prefix(root).ok().and_then(Path::to_str);
    let shown = below.unwrap_or(path);
    shown.strip_prefix("./").unwrap_or(shown).to_owned()
}

fn write(path: &str, text: &str, encoding: Encoding, like: Option<String>) -> Change {
    Change::Write { path: path.to_owned(), content: encoding.encode(text), like }
}
