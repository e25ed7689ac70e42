//! Who is asked before a script starts or a tool acts.
//!
//! Fail closed: no approver, no answer in time, or an approver that failed all mean no. A decision is tied to the exact script or command;
//! what is remembered is its hash, so neither a stored file nor a log holds the text.
//!
//! Not here: the file that holds stored decisions ([`DecisionStore`] is its seam), and the tables of refused commands, which belong to the tool.

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::config::ToolApproval;
use crate::output::{Clean, Redactor};
use crate::tool::{Caution, Effect, ToolSpec};

/// How long an approver may take before silence counts as no.
const ANSWER_TIME: Duration = Duration::from_secs(300);

/// Whether anybody is asked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// Approve.
    Off,
    /// Ask the approver.
    #[default]
    Ask,
    /// Refuse.
    Deny,
}

/// What an approver is shown.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// What is asked for: `script` or a tool's name.
    pub subject: String,
    /// The exact script or command; a decision is tied to it.
    pub exact: String,
    /// The same as text that may be shown.
    pub shown: Clean,
    /// Why it has to be asked.
    pub reason: Clean,
}

/// An approver's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This time.
    Once,
    /// For this session: as long as the sandbox lives.
    Session,
    /// From now on, stored.
    Always,
    /// No.
    Deny,
}

/// Somebody who decides: a person at a terminal, the embedder's own dialog, a rule.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides. `None` = no answer, which counts as no.
    async fn decide(&self, request: &ApprovalRequest) -> Option<Decision>;
}

/// Where decisions that hold from now on are kept.
pub trait DecisionStore: Send + Sync {
    /// Whether this was approved before.
    fn contains(&self, digest: &[u8; 32]) -> bool;

    /// Keeps an approval. A failure is logged by the store; the decision then holds for the session.
    fn insert(&self, digest: [u8; 32]);
}

/// What approval is asked for.
#[derive(Debug, Clone)]
pub struct Subject {
    name: String,
    exact: String,
    effect: Effect,
    caution: Caution,
    reason: &'static str,
}

impl Subject {
    /// A whole script, on a backend that does not seal it.
    pub fn script(code: &str) -> Self {
        let reason = "this backend does not seal scripts off from the account that runs them";
        Self { name: "script".into(), exact: code.into(), effect: Effect::Execute, caution: Caution::None, reason }
    }

    /// One call of a tool, and what the tool says of it.
    pub fn tool(spec: &ToolSpec, args: &Map<String, Value>, caution: Caution) -> Self {
        // A tool whose one argument of weight is a command is judged by that text; it is also what a person wants to read.
        let exact = match args.get("command") {
            Some(Value::String(command)) if args.len() == 1 => command.clone(),
            _ => Value::Object(args.clone()).to_string(),
        };
        let reason = match caution {
            Caution::Ask(what) => what,
            Caution::None | Caution::Refused => "the tool runs code outside the sealed guest",
        };
        Self { name: spec.name.clone(), exact, effect: spec.effect, caution, reason }
    }

    fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update((self.name.len() as u64).to_le_bytes());
        hasher.update(&self.name);
        hasher.update(&self.exact);
        hasher.finalize().into()
    }
}

/// Judges scripts and calls. Cheap to clone; clones share what was decided for the session.
#[derive(Clone, Default)]
pub struct Approval {
    mode: ApprovalMode,
    rules: Arc<BTreeMap<String, ToolApproval>>,
    approver: Option<Arc<dyn Approver>>,
    store: Option<Arc<dyn DecisionStore>>,
    session: Arc<Mutex<HashSet<[u8; 32]>>>,
}

impl Approval {
    /// Approval in one mode, with rules for tools by name, and nobody to ask yet.
    pub fn new(mode: ApprovalMode, rules: BTreeMap<String, ToolApproval>) -> Self {
        Self { mode, rules: Arc::new(rules), ..Self::default() }
    }

    /// Names who is asked.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Names where decisions are kept.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn DecisionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Whether this passes without a question and without looking at its text.
    pub fn passes_unasked(&self, subject: &Subject) -> bool {
        match self.rule(subject) {
            ToolApproval::Allow => true,
            ToolApproval::Ask => self.mode == ApprovalMode::Off,
            ToolApproval::Deny => false,
        }
    }

    /// Asks where it has to be asked. The error is the text for whoever wanted it.
    pub async fn check(&self, subject: &Subject, redactor: &Redactor) -> Result<(), String> {
        if self.passes_unasked(subject) {
            return Ok(());
        }
        let denied = |why: &str| Err(format!("Approval denied for {}: {why}.", subject.name));
        if self.rule(subject) == ToolApproval::Deny || self.mode == ApprovalMode::Deny {
            return denied("it is not allowed by configuration");
        }
        let digest = subject.digest();
        if self.is_known(&digest) {
            return Ok(());
        }
        let Some(approver) = &self.approver else { return denied("there is nobody to ask") };
        match ask(approver.as_ref(), subject, redactor).await {
            Some(Decision::Once) => Ok(()),
            Some(Decision::Session) => {
                self.remember(digest);
                Ok(())
            }
            Some(Decision::Always) => {
                self.remember(digest);
                if let Some(store) = &self.store {
                    store.insert(digest);
                }
                Ok(())
            }
            Some(Decision::Deny) => denied("the user said no"),
            None => denied("no answer"),
        }
    }

    /// The rule for a call: the configured one, else by what the tool can change. A dangerous call of an allowed tool is asked about.
    fn rule(&self, subject: &Subject) -> ToolApproval {
        let rule = self.rules.get(&subject.name).copied().unwrap_or(match subject.effect {
            Effect::Execute => ToolApproval::Ask,
            Effect::Read | Effect::Write | Effect::Network => ToolApproval::Allow,
        });
        match (rule, subject.caution) {
            (ToolApproval::Deny, _) => ToolApproval::Deny,
            (_, Caution::Refused) => ToolApproval::Allow,
            (_, Caution::Ask(_)) => ToolApproval::Ask,
            (rule, Caution::None) => rule,
        }
    }

    fn is_known(&self, digest: &[u8; 32]) -> bool {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
            || self.store.as_ref().is_some_and(|store| store.contains(digest))
    }

    fn remember(&self, digest: [u8; 32]) {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
    }
}

/// An approver that hangs or panics has given no answer.
async fn ask(approver: &dyn Approver, subject: &Subject, redactor: &Redactor) -> Option<Decision> {
    let request = ApprovalRequest {
        subject: subject.name.clone(),
        exact: subject.exact.clone(),
        shown: redactor.clean(&subject.exact),
        reason: Clean::from_static(subject.reason),
    };
    let answer = AssertUnwindSafe(approver.decide(&request)).catch_unwind();
    tokio::time::timeout(ANSWER_TIME, answer).await.ok()?.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Says(Option<Decision>, Mutex<u32>);

    #[async_trait]
    impl Approver for Says {
        async fn decide(&self, _: &ApprovalRequest) -> Option<Decision> {
            *self.1.lock().unwrap() += 1;
            assert_ne!(self.0, Some(Decision::Deny), "panics like a broken approver");
            self.0
        }
    }

    fn says(decision: Option<Decision>) -> Arc<Says> {
        Arc::new(Says(decision, Mutex::new(0)))
    }

    fn terminal(command: &str) -> Subject {
        let spec = ToolSpec {
            name: "terminal".into(),
            description: String::new(),
            schema: json!({}),
            effect: Effect::Execute,
            dropped_args: &[],
            returns: "dict",
        };
        let Value::Object(args) = json!({ "command": command }) else { unreachable!() };
        Subject::tool(&spec, &args, Caution::None)
    }

    fn cautioned(caution: Caution) -> Subject {
        Subject { caution, ..terminal("rm -rf build") }
    }

    #[tokio::test]
    async fn a_dangerous_call_of_an_allowed_tool_is_asked_about_and_a_hopeless_one_is_not() {
        let redactor = Redactor::new().unwrap();
        let rules = |rule| BTreeMap::from([("terminal".to_owned(), rule)]);
        let allowed = Approval::new(ApprovalMode::Ask, rules(ToolApproval::Allow));
        assert!(allowed.passes_unasked(&cautioned(Caution::None)));
        assert!(!allowed.passes_unasked(&cautioned(Caution::Ask("removes directories"))));
        assert!(ask_mode().passes_unasked(&cautioned(Caution::Refused)));
        let refused = Approval::new(ApprovalMode::Ask, rules(ToolApproval::Deny));
        assert!(refused.check(&cautioned(Caution::Refused), &redactor).await.is_err());
        assert!(Approval::new(ApprovalMode::Off, BTreeMap::new()).passes_unasked(&cautioned(Caution::Ask("x"))));
    }

    fn ask_mode() -> Approval {
        Approval::new(ApprovalMode::Ask, BTreeMap::new())
    }

    #[tokio::test]
    async fn nobody_to_ask_no_answer_and_a_broken_approver_all_mean_no() {
        let redactor = Redactor::new().unwrap();
        let text = |why| Err(format!("Approval denied for terminal: {why}."));
        assert_eq!(ask_mode().check(&terminal("ls"), &redactor).await, text("there is nobody to ask"));
        let silent = ask_mode().approver(says(None));
        assert_eq!(silent.check(&terminal("ls"), &redactor).await, text("no answer"));
        let broken = ask_mode().approver(says(Some(Decision::Deny)));
        assert_eq!(broken.check(&terminal("ls"), &redactor).await, text("no answer"));
    }

    #[tokio::test]
    async fn a_session_decision_holds_for_the_exact_command_only() {
        let approver = says(Some(Decision::Session));
        let approval = ask_mode().approver(approver.clone());
        for command in ["ls", "ls", "ls ", "ls"] {
            approval.check(&terminal(command), &Redactor::new().unwrap()).await.unwrap();
        }
        assert_eq!(*approver.1.lock().unwrap(), 2);
    }

    #[tokio::test]
    async fn rules_and_modes_decide_without_asking() {
        let redactor = Redactor::new().unwrap();
        let denied = Err("Approval denied for terminal: it is not allowed by configuration.".to_owned());
        let rules = |rule| BTreeMap::from([("terminal".to_owned(), rule)]);
        assert!(
            Approval::new(ApprovalMode::Deny, rules(ToolApproval::Allow))
                .check(&terminal("ls"), &redactor)
                .await
                .is_ok()
        );
        assert_eq!(
            Approval::new(ApprovalMode::Off, rules(ToolApproval::Deny)).check(&terminal("ls"), &redactor).await,
            denied
        );
        assert_eq!(Approval::new(ApprovalMode::Deny, BTreeMap::new()).check(&terminal("ls"), &redactor).await, denied);
        assert!(Approval::new(ApprovalMode::Off, BTreeMap::new()).check(&terminal("ls"), &redactor).await.is_ok());
    }
}
