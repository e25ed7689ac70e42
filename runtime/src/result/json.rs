//! The contract's JSON object: field order, and which fields appear when.

use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{RunResult, Status};

impl RunResult {
    /// The contract's object as one line of valid UTF-8, non-ASCII kept.
    pub fn to_json(&self) -> String {
        // Strings, numbers and lists of them: serializing can't fail. If it ever did, the caller still gets an object that says so.
        serde_json::to_string(self).unwrap_or_else(|_| {
            String::from(r#"{"status":"error","error":"the result can't be shown","kind":"internal"}"#)
        })
    }
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.bare {
            map.serialize_entry("error", &self.error)?;
            return map.end();
        }
        map.serialize_entry("status", &self.status)?;
        optional(&mut map, "output", self.output.as_ref())?;
        map.serialize_entry("tool_calls_made", &self.tool_calls_made)?;
        map.serialize_entry("duration_seconds", &two_decimals(self.duration))?;
        optional(&mut map, "error", self.error.as_ref().filter(|_| self.status != Status::Success))?;
        optional(&mut map, "kind", self.kind.as_ref())?;
        optional(&mut map, "exit_code", self.exit_code.as_ref())?;
        if let (Some(stdout), Some(stderr)) = (&self.stdout, &self.stderr) {
            map.serialize_entry("stdout_bytes", &stdout.total)?;
            map.serialize_entry("stdout_omitted", &stdout.omitted)?;
            map.serialize_entry("stderr_bytes", &stderr.total)?;
            map.serialize_entry("stderr_omitted", &stderr.omitted)?;
        }
        if self.refused_calls > 0 {
            map.serialize_entry("refused_calls", &self.refused_calls)?;
        }
        optional(&mut map, "tool_calls", self.tool_calls.as_ref())?;
        map.serialize_entry("backend", self.backend)?;
        map.serialize_entry("isolation", &self.isolation)?;
        // The slim image is part of the program; its hash would only cost a model tokens.
        let image = self.image.as_ref().filter(|image| image.name != crate::config::SLIM).map(ToString::to_string);
        optional(&mut map, "image", image.as_ref())?;
        if !self.figures.is_empty() {
            let sizes: Vec<usize> = self.figures.iter().map(bytes::Bytes::len).collect();
            map.serialize_entry("figure_bytes", &sizes)?;
        }
        if self.stdout.is_some() {
            map.serialize_entry("truncated", &self.truncated())?;
        }
        if !self.approval_wait.is_zero() {
            map.serialize_entry("approval_wait_seconds", &two_decimals(self.approval_wait))?;
        }
        optional(&mut map, "spill_path", self.spill_path.as_ref())?;
        optional(&mut map, "hint", self.hint.as_ref())?;
        if !self.warnings.is_empty() {
            map.serialize_entry("warnings", &self.warnings)?;
        }
        map.end()
    }
}

fn optional<M: SerializeMap>(map: &mut M, key: &'static str, value: Option<&impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

fn two_decimals(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100.0).round() / 100.0
}
