//! A command as the tables look at it: without terminal control, look-alike characters, case, quotes and line continuations. Pure.

use gloveport::output::strip;
use unicode_normalization::UnicodeNormalization;

/// The forms of one command that are compared with the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Forms {
    /// As typed, normalized.
    pub(crate) plain: String,
    /// What the shell makes of simple quoting: `r\m`, `"rm"` and `'rm'` are `rm`.
    pub(crate) unquoted: String,
}

impl Forms {
    pub(crate) fn of(command: &str) -> Self {
        let visible: String = strip(command).nfkc().filter(|c| !is_invisible(*c)).collect();
        let plain = visible.to_lowercase().replace("\\\n", "");
        // Blanks that only separate words are one blank, except line ends, which separate commands.
        let plain = plain.replace("${ifs}", " ").replace("$ifs", " ");
        let unquoted = collapse(&unquote(&plain));
        Self { plain: collapse(&plain), unquoted }
    }
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

fn collapse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let blank = matches!(c, ' ' | '\t' | '\r');
        if !(blank && out.ends_with([' ', '\n'])) {
            out.push(if blank { ' ' } else { c });
        }
    }
    out.trim().to_owned()
}

/// Drops quotes and backslashes, but keeps a quoted text that is an argument of its own apart: what it holds is no command.
fn unquote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            quote @ ('\'' | '"') => {
                let quoted: String = chars.by_ref().take_while(|c| *c != quote).collect();
                if quoted.contains([' ', '\n', ';', '|', '&']) {
                    // Words of a quoted argument must not look like commands or paths of the line.
                    out.extend(
                        quoted.chars().map(|c| if c.is_whitespace() || ";|&()<>`".contains(c) { '\u{1}' } else { c }),
                    );
                } else {
                    out.push_str(&quoted);
                }
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disguises_are_seen_through() {
        for disguised in [
            "RM -rf /",
            "r\\m -rf /",
            "\"rm\" -rf /",
            "r''m -rf /",
            "rm\t -rf   /",
            "\u{ff52}\u{ff4d} -rf /",
            "r\u{200b}m -rf /",
            "\x1b[31mrm\x1b[0m -rf /",
            "rm${IFS}-rf${IFS}/",
            "rm \\\n-rf /",
        ] {
            assert_eq!(Forms::of(disguised).unquoted, "rm -rf /", "{disguised:?}");
        }
    }
}
