//! Asks a person at the terminal: shows what is to be approved and why, and takes one key.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use gloveport::approval::{ApprovalRequest, Approver, Decision};

/// How often a prompt looks whether its answer is still wanted.
const POLL: Duration = Duration::from_millis(100);
/// What the script printed before it asked is shown before the question: live output comes with a delay.
const OUTPUT_DELAY: Duration = Duration::from_millis(150);
/// Lines of a script or command that are shown; the rest is counted.
const LINES_SHOWN: usize = 60;

/// Asks on stderr and reads a key from the terminal, also where stdin is something else.
pub(crate) struct TerminalApprover {
    /// One question at a time: calls that run together wait for each other.
    turn: tokio::sync::Mutex<()>,
    /// Pressed in raw mode, Ctrl-C is a key like any other and has to be passed on.
    interrupt: Box<dyn Fn() + Send + Sync>,
}

impl TerminalApprover {
    /// An approver, if there is a person to ask.
    pub(crate) fn new(interrupt: impl Fn() + Send + Sync + 'static) -> Option<Arc<Self>> {
        let there = io::stderr().is_terminal() && (io::stdin().is_terminal() || has_terminal());
        there.then(|| Arc::new(Self { turn: tokio::sync::Mutex::new(()), interrupt: Box::new(interrupt) }))
    }
}

#[async_trait]
impl Approver for TerminalApprover {
    async fn decide(&self, request: &ApprovalRequest) -> Option<Decision> {
        let _turn = self.turn.lock().await;
        tokio::time::sleep(OUTPUT_DELAY).await;
        let _ = io::stderr().write_all(question(request).as_bytes());
        let unwanted = Unwanted::default();
        let flag = Arc::clone(&unwanted.0);
        let answer = tokio::task::spawn_blocking(move || read_answer(&flag)).await.ok()??;
        let _ = writeln!(io::stderr(), "{}", answer.shown());
        match answer {
            Answer::Decided(decision) => Some(decision),
            Answer::Interrupted => {
                (self.interrupt)();
                // The run ends now, and this future with it; an answer would let the script go on until it does.
                std::future::pending().await
            }
        }
    }
}

/// Tells the reading thread to give the terminal back when nobody waits for the answer any more.
#[derive(Default)]
struct Unwanted(Arc<AtomicBool>);

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Decided(Decision),
    Interrupted,
}

impl Answer {
    fn shown(self) -> &'static str {
        match self {
            Self::Decided(Decision::Once) => "yes",
            Self::Decided(Decision::Session) => "yes, for this session",
            Self::Decided(Decision::Always) => "yes, always",
            Self::Decided(Decision::Deny) => "no",
            Self::Interrupted => "^C",
        }
    }
}

/// Every line of foreign text is marked, so that none of it can pass for part of the question.
fn question(request: &ApprovalRequest) -> String {
    let shown = &request.shown;
    let mut lines: Vec<String> = shown.lines().take(LINES_SHOWN).map(|line| format!("  | {line}")).collect();
    let more = shown.lines().count().saturating_sub(LINES_SHOWN);
    if more > 0 {
        lines.push(format!("  ... and {more} more lines"));
    }
    format!(
        "\napproval needed for {}: {}\n\n{}\n\n[y] once  [s] this session  [a] always  [n] no > ",
        request.subject,
        request.reason,
        lines.join("\n")
    )
}

fn read_answer(unwanted: &AtomicBool) -> Option<Answer> {
    let _raw = RawMode::enter().ok()?;
    // What was typed before the question was seen is no answer to it.
    while event::poll(Duration::ZERO).ok()? {
        event::read().ok()?;
    }
    while !unwanted.load(Ordering::Relaxed) {
        if event::poll(POLL).ok()?
            && let Event::Key(key) = event::read().ok()?
            && let Some(answer) = answer(key)
        {
            return Some(answer);
        }
    }
    None
}

/// What a key means; any other key is ignored, so that a slip is no answer.
fn answer(key: KeyEvent) -> Option<Answer> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let decided = |decision| Some(Answer::Decided(decision));
    match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Answer::Interrupted),
        KeyCode::Char('y' | 'Y') => decided(Decision::Once),
        KeyCode::Char('s' | 'S') => decided(Decision::Session),
        KeyCode::Char('a' | 'A') => decided(Decision::Always),
        KeyCode::Char('n' | 'N') | KeyCode::Esc | KeyCode::Enter => decided(Decision::Deny),
        _ => None,
    }
}

/// Raw mode for as long as a question is open, whatever ends it.
struct RawMode;

impl RawMode {
    fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode().map(|()| Self)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = terminal::disable_raw_mode();
    }
}

/// Whether the process has a controlling terminal although its stdin is something else.
#[cfg(unix)]
fn has_terminal() -> bool {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).is_ok()
}

#[cfg(not(unix))]
fn has_terminal() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use gloveport::output::Redactor;

    use super::*;

    fn request(text: &str) -> ApprovalRequest {
        let redactor = Redactor::new().unwrap();
        ApprovalRequest {
            subject: "terminal".into(),
            exact: text.into(),
            shown: redactor.clean(text),
            reason: redactor.clean("the tool runs code"),
        }
    }

    #[test]
    fn the_question_shows_what_is_asked_and_marks_foreign_text() {
        assert_eq!(
            question(&request("ls\n\n[y] once \x1b[2J")),
            "\napproval needed for terminal: the tool runs code\n\n  | ls\n  | \n  | [y] once \n\n\
             [y] once  [s] this session  [a] always  [n] no > "
        );
    }

    #[test]
    fn a_long_script_is_shown_in_part() {
        let text = question(&request(&"x\n".repeat(100)));
        assert_eq!(text.matches("  | x\n").count(), 60);
        assert!(text.contains("  ... and 40 more lines\n"), "{text}");
    }

    #[test]
    fn only_the_named_keys_are_answers() {
        let key = |code, modifiers| answer(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('y'), KeyModifiers::NONE), Some(Answer::Decided(Decision::Once)));
        assert_eq!(key(KeyCode::Enter, KeyModifiers::NONE), Some(Answer::Decided(Decision::Deny)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Answer::Interrupted));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::NONE), None);
    }
}
