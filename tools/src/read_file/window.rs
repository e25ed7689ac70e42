//! A window of lines over a stream of bytes: keeps what was asked for, counts the rest. Memory is bounded whatever comes.

/// How much a window keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowLimits {
    /// Characters of a line.
    pub(crate) line: usize,
    /// Characters in all.
    pub(crate) total: usize,
}

/// What marks a cut line.
const CUT: &str = "... [truncated]";

/// Collects lines `first..first + count` of what is pushed.
#[derive(Debug)]
pub(crate) struct Window {
    limits: WindowLimits,
    first: u64,
    count: u64,
    /// Number of the line under way, from 1.
    line: u64,
    /// Bytes of the line under way that are kept, without its end.
    open: Vec<u8>,
    /// Whether the line under way is longer than `open` may get.
    open_cut: bool,
    /// The last two bytes of the line under way, for the end of a cut one.
    last: [u8; 2],
    /// Whether the line under way has any bytes.
    begun: bool,
    content: String,
    chars: usize,
    shown: u64,
    cut_lines: u64,
    invalid: bool,
    overflowed: bool,
    stopped: Option<&'static str>,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) content: String,
    pub(crate) first_line: u64,
    pub(crate) shown: u64,
    pub(crate) total_lines: u64,
    /// The first line after the window, if there is one.
    pub(crate) next_line: Option<u64>,
    pub(crate) cut_lines: u64,
    pub(crate) invalid: bool,
    pub(crate) overflowed: bool,
    pub(crate) stopped: Option<&'static str>,
}

impl Window {
    pub(crate) fn new(first: u64, count: u64, limits: WindowLimits) -> Self {
        Self {
            limits,
            first,
            count,
            line: 1,
            open: Vec::new(),
            open_cut: false,
            last: [0; 2],
            begun: false,
            content: String::new(),
            chars: 0,
            shown: 0,
            cut_lines: 0,
            invalid: false,
            overflowed: false,
            stopped: None,
        }
    }

    /// Whether all lines that were asked for have been seen.
    pub(crate) fn is_complete(&self) -> bool {
        self.overflowed || self.line >= self.first.saturating_add(self.count)
    }

    /// Notes why the stream was not read to its end.
    pub(crate) fn stop(&mut self, reason: &'static str) {
        self.stopped = Some(reason);
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if !self.is_wanted() {
                rest = self.skip(rest);
                continue;
            }
            match memchr::memchr(b'\n', rest) {
                Some(end) => {
                    self.extend(&rest[..=end]);
                    self.end_line();
                    rest = &rest[end + 1..];
                }
                None => {
                    self.extend(rest);
                    rest = &[];
                }
            }
        }
    }

    /// Counts lines that are not wanted, up to the first one that is.
    fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.line < self.first {
            let to_go = self.first - self.line;
            let mut ends = memchr::memchr_iter(b'\n', bytes);
            let mut passed = 0;
            let last = usize::try_from(to_go).ok().and_then(|n| ends.by_ref().inspect(|_| passed += 1).nth(n - 1));
            self.line += passed;
            return match last {
                Some(end) => {
                    self.begun = false;
                    &bytes[end + 1..]
                }
                None => {
                    self.begun = !bytes.ends_with(b"\n");
                    &[]
                }
            };
        }
        self.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.begun = !bytes.ends_with(b"\n");
        &[]
    }

    fn is_wanted(&self) -> bool {
        self.line >= self.first && !self.is_complete()
    }

    /// Adds to the line under way. Four bytes are the longest character, so this many hold all that will be shown.
    fn extend(&mut self, bytes: &[u8]) {
        self.begun = true;
        let room = (self.limits.line + 2) * 4;
        let kept = room.saturating_sub(self.open.len()).min(bytes.len());
        self.open.extend_from_slice(&bytes[..kept]);
        self.open_cut |= kept < bytes.len();
        self.last = match bytes {
            [.., a, b] => [*a, *b],
            [b] => [self.last[1], *b],
            [] => self.last,
        };
    }

    fn end_line(&mut self) {
        self.show_line(true);
        self.line += 1;
        self.begun = false;
    }

    fn show_line(&mut self, ended: bool) {
        let bytes = std::mem::take(&mut self.open);
        let cut_early = std::mem::take(&mut self.open_cut);
        let text = String::from_utf8_lossy(&bytes);
        let (body, end) = match text.strip_suffix("\r\n") {
            Some(body) if !cut_early => (body, "\r\n"),
            _ if cut_early && !ended => (&*text, ""),
            _ if cut_early => (&*text, if self.last == *b"\r\n" { "\r\n" } else { "\n" }),
            _ => text.strip_suffix('\n').map_or((&*text, ""), |body| (body, "\n")),
        };
        // A piece of a character at the early cut is not the file's fault.
        self.invalid |= !cut_early && matches!(text, std::borrow::Cow::Owned(_));
        match body.char_indices().nth(self.limits.line) {
            Some((at, _)) => {
                self.content.push_str(&body[..at]);
                self.content.push_str(CUT);
                self.cut_lines += 1;
                self.chars += self.limits.line + CUT.len();
            }
            None => {
                self.content.push_str(body);
                self.chars += body.chars().count();
            }
        }
        self.content.push_str(end);
        self.chars += end.len();
        self.shown += 1;
        if self.chars > self.limits.total {
            self.overflowed = true;
            self.content = String::new();
        }
    }

    pub(crate) fn finish(mut self) -> Seen {
        if self.begun && self.is_wanted() {
            self.show_line(false);
        }
        let total_lines = if self.begun { self.line } else { self.line - 1 };
        let after = self.first.saturating_add(self.shown);
        Seen {
            next_line: (self.shown > 0 && after <= total_lines).then_some(after),
            content: self.content,
            first_line: self.first,
            shown: self.shown,
            total_lines,
            cut_lines: self.cut_lines,
            invalid: self.invalid,
            overflowed: self.overflowed,
            stopped: self.stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(text: &str, first: u64, count: u64, piece: usize) -> Seen {
        let mut window = Window::new(first, count, WindowLimits { line: 10, total: 100 });
        text.as_bytes().chunks(piece.max(1)).for_each(|bytes| window.push(bytes));
        window.finish()
    }

    /// The same by the plainest means.
    fn model(text: &str, first: u64, count: u64) -> (String, u64) {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let wanted = lines.iter().skip(usize::try_from(first).unwrap() - 1).take(usize::try_from(count).unwrap());
        let cut = wanted.map(|line| {
            let body = line.strip_suffix('\n').unwrap_or(line);
            let body = if line.ends_with("\r\n") { &body[..body.len() - 1] } else { body };
            match body.char_indices().nth(10) {
                Some((at, _)) => format!("{}{CUT}{}", &body[..at], &line[body.len()..]),
                None => (*line).to_owned(),
            }
        });
        (cut.collect(), lines.len() as u64)
    }

    proptest! {
        #[test]
        fn a_window_is_the_files_own_lines(text in "([a-zé€😀\r]{0,14}\n?){0,8}", first in 1u64..8, count in 1u64..5, piece in 1usize..20) {
            let seen = window(&text, first, count, piece);
            let (content, total) = model(&text, first, count);
            prop_assert_eq!(seen.total_lines, total);
            if !seen.overflowed {
                prop_assert_eq!(seen.content, content);
            }
        }
    }

    #[test]
    fn bounds_are_kept() {
        let seen = window(&"x".repeat(1_000_000), 1, 5, 4096);
        assert_eq!((seen.content.as_str(), seen.cut_lines, seen.total_lines), ("xxxxxxxxxx... [truncated]", 1, 1));
        let seen = window(&"xxxxx\n".repeat(50), 1, 50, 7);
        assert!(seen.overflowed && seen.content.is_empty());
        assert_eq!(seen.total_lines, 50);
        assert_eq!(window("", 1, 5, 1).total_lines, 0);
        assert_eq!(window("a\nb", 1, 1, 1).next_line, Some(2));
        assert_eq!(window("a\n", 1, 1, 1).next_line, None);
    }
}
