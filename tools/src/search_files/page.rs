//! The part of all results that an answer shows.

use serde_json::{Map, Value, json};

use super::lines::FileHits;
use super::query::{Listing, Query};

/// Collects results in order, drops those before the page, and knows when it is full.
#[derive(Debug)]
pub(crate) struct Page {
    listing: Listing,
    offset: usize,
    limit: usize,
    /// Results seen, those before the page included.
    seen: usize,
    /// Matching lines seen, for counts.
    lines: usize,
    matches: Vec<Value>,
    files: Vec<Value>,
    counts: Map<String, Value>,
    /// Links that lead out of the workspace, and files that must not be read.
    pub(crate) skipped: u64,
    /// Why the search ended before its end.
    pub(crate) limit_reason: Option<&'static str>,
    /// All results, where that is known without listing them.
    pub(crate) total: Option<usize>,
}

impl Page {
    pub(crate) fn new(query: &Query) -> Self {
        Self {
            listing: query.listing,
            offset: query.offset,
            limit: query.limit,
            seen: 0,
            lines: 0,
            matches: Vec::new(),
            files: Vec::new(),
            counts: Map::new(),
            skipped: 0,
            limit_reason: None,
            total: None,
        }
    }

    /// Whether one more result than fits was seen.
    pub(crate) fn is_full(&self) -> bool {
        self.seen > self.offset + self.limit
    }

    /// Takes what a file holds.
    pub(crate) fn add(&mut self, path: &str, found: FileHits) {
        self.skipped += u64::from(found.failed);
        if found.count == 0 {
            return;
        }
        self.lines += found.count;
        match self.listing {
            Listing::Lines => {
                for hit in found.hits {
                    if self.take() {
                        let mut item = json!({ "path": path, "line": hit.line, "content": hit.content });
                        if !hit.before.is_empty() || !hit.after.is_empty() {
                            item["before"] = hit.before.into();
                            item["after"] = hit.after.into();
                        }
                        self.matches.push(item);
                    }
                }
            }
            Listing::Counts => {
                if self.take() {
                    self.counts.insert(path.to_owned(), found.count.into());
                }
            }
            Listing::FilesWithMatch | Listing::Names => self.add_file(path),
        }
    }

    /// Takes a file by its name alone.
    pub(crate) fn add_file(&mut self, path: &str) {
        if self.take() {
            self.files.push(path.into());
        }
    }

    /// Counts a result, and tells whether it is on the page.
    fn take(&mut self) -> bool {
        self.seen += 1;
        self.seen > self.offset && self.seen <= self.offset + self.limit
    }

    /// The answer.
    pub(crate) fn render(self) -> Value {
        let more = self.is_full() || self.total.is_some_and(|total| total > self.offset + self.limit);
        let truncated = more || self.limit_reason.is_some();
        let exact = self.limit_reason.is_none() && (self.total.is_some() || !self.is_full());
        let count = match self.listing {
            Listing::Counts => self.lines,
            _ => self.total.unwrap_or(self.seen),
        };
        let mut answer = Map::new();
        answer.insert("total_count".into(), count.into());
        answer.insert("matches".into(), self.matches.into());
        match self.listing {
            Listing::Lines => {}
            Listing::Counts => _ = answer.insert("counts".into(), self.counts.into()),
            Listing::FilesWithMatch | Listing::Names => _ = answer.insert("files".into(), self.files.into()),
        }
        answer.insert("truncated".into(), truncated.into());
        if more {
            answer.insert("next_offset".into(), (self.offset + self.limit).into());
        }
        if truncated && !exact {
            answer.insert("total_count_is_lower_bound".into(), true.into());
        }
        if let Some(reason) = self.limit_reason {
            answer.insert("limit_reason".into(), reason.into());
        }
        if self.skipped > 0 {
            answer.insert("skipped".into(), self.skipped.into());
        }
        Value::Object(answer)
    }
}
