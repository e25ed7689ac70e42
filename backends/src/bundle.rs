//! The relay as text: what the command line of a remote holds, and what is sent once its Python has been proved.

use std::time::Duration;

use serde_json::json;

macro_rules! remote {
    ($name:literal) => {
        include_str!(concat!("../../guest-python/remote/", $name, ".py"))
    };
}

macro_rules! shim {
    ($name:literal) => {
        include_str!(concat!("../../guest-python/python/", $name, ".py"))
    };
}

/// Modules of the relay itself, each after those that it imports.
const MODULES: [(&str, &str); 11] = [
    ("gp_frames", remote!("gp_frames")),
    ("gp_rundir", remote!("gp_rundir")),
    ("gp_requests", remote!("gp_requests")),
    ("gp_process", remote!("gp_process")),
    ("gp_run", remote!("gp_run")),
    ("gp_paths", remote!("gp_paths")),
    ("gp_journal", remote!("gp_journal")),
    ("gp_changes", remote!("gp_changes")),
    ("gp_commands", remote!("gp_commands")),
    ("gp_files", remote!("gp_files")),
    ("gp_relay", remote!("gp_relay")),
];

/// Modules that scripts share with the sealed guest, by the name they are imported under. The scheduler is the remote's own.
const SHARED: [(&str, &str, &str); 7] = [
    ("_gp_sched", "_gp_remote", remote!("_gp_remote")),
    ("_gp_native_loop", "_gp_native_loop", remote!("_gp_native_loop")),
    ("_gp_state", "_gp_state", shim!("_gp_state")),
    ("_gp_tools", "_gp_tools", shim!("_gp_tools")),
    ("_gp_await", "_gp_await", shim!("_gp_await")),
    ("_gp_rewrite", "_gp_rewrite", shim!("_gp_rewrite")),
    ("_gp_rewrite_flow", "_gp_rewrite_flow", shim!("_gp_rewrite_flow")),
];

/// Oldest Python that the relay and the scripts' module work on.
pub(crate) const OLDEST_PYTHON: (u32, u32) = (3, 8);

/// Settings of one relay.
#[derive(Debug, Clone)]
pub(crate) struct RelayOptions {
    /// Where run directories are made; `None` = the first usable candidate.
    pub(crate) place: Option<String>,
    /// How long the relay waits for a sign of life.
    pub(crate) lease: Duration,
    /// Longest frame that the relay takes.
    pub(crate) max_frame: usize,
    /// Whether to do without FIFOs, for tests and for file systems that only pretend to have them.
    pub(crate) poll: bool,
}

/// The command line that starts a relay. It is the same for everybody and holds no secret; the marker only tells noise apart.
pub(crate) fn argv(python: &str, marker: &Marker) -> Vec<String> {
    // The last line of the file: comments are for readers.
    let boot = remote!("gp_boot").trim_end().rsplit('\n').next().unwrap_or_default();
    [python, "-I", "-S", "-c", boot, &marker.first, &marker.second].map(str::to_owned).to_vec()
}

/// What the relay's first words look like; made anew for each relay.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    first: String,
    second: String,
}

impl Marker {
    /// A marker of random bytes.
    pub(crate) fn new(random: [u8; 16]) -> Self {
        let (first, second) = random.split_at(8);
        Self { first: crate::seal::hex(first), second: crate::seal::hex(second) }
    }

    /// The text that comes before the version: the halves swapped, so that an echo of the command line is not taken for it.
    pub(crate) fn text(&self) -> String {
        format!("{}:{} ", self.second, self.first)
    }
}

/// The relay's text, with its length in front, as the command line's program reads it.
pub(crate) fn text(options: &RelayOptions) -> Vec<u8> {
    let shared: serde_json::Map<_, _> =
        SHARED.iter().map(|(name, file, text)| ((*name).to_owned(), json!([file, text]))).collect();
    let data = json!({
        "modules": MODULES,
        "options": {
            "place": options.place,
            "lease": options.lease.as_secs_f64(),
            "max_frame": options.max_frame,
            "doorbell": if options.poll { "poll" } else { "fifo" },
        },
        "sources": {"_gp_runner": remote!("_gp_runner"), "shared": shared},
    });
    // A JSON string of ASCII is a Python string; the outer encoding makes one of the whole document.
    let literal = json!(ascii(&data.to_string())).to_string();
    let loader = format!(
        "import sys,types,json\nb=json.loads({literal})\nfor n,t in b['modules']:\n \
         m=sys.modules[n]=types.ModuleType(n);exec(compile(t,n+'.py','exec'),m.__dict__)\n\
         sys.modules['gp_relay'].main(b['options'],b['sources'])\n"
    );
    let mut bytes = format!("{:08}", loader.len()).into_bytes();
    bytes.extend_from_slice(loader.as_bytes());
    bytes
}

/// JSON with everything beyond ASCII escaped, so that the remote's idea of an encoding does not matter.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> RelayOptions {
        RelayOptions { place: Some("/ä".into()), lease: Duration::from_secs(10), max_frame: 1, poll: false }
    }

    #[test]
    fn the_command_line_means_nothing_to_any_shell() {
        let argv = argv("python3", &Marker::new([1; 16]));
        assert!(argv.iter().all(|word| !word.contains(['\'', '\\', '!', '\n']) && word.is_ascii()), "{argv:?}");
    }

    #[test]
    fn an_echoed_command_line_is_not_the_marker() {
        let marker = Marker::new(*b"0123456789abcdef");
        assert!(!argv("python3", &marker).join(" ").contains(marker.text().trim_end()));
    }

    #[test]
    fn the_text_is_ascii_and_states_its_length() {
        let text = text(&options());
        assert!(text.is_ascii());
        let stated: usize = std::str::from_utf8(&text[..8]).unwrap().parse().unwrap();
        assert_eq!(stated, text.len() - 8);
    }
}
