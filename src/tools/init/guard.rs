//! The hooks by which lbx guards a client's own tools: one entry for each event that `lbx hook` serves.

use serde_json::{Value, json};

use super::purpose::{For, HOOK_SIGN};
use crate::text::jsonc::{self, Fault};
use crate::tools::hook::client::{HookClient, Moment, ToolKind};

/// Beginning of the command of each hook, by which they are found again.
pub const GUARD_SIGN: &str = "lbx hook ";
/// Word in a plugin that lbx wrote, if it guards.
pub const PLUGIN_SIGN: &str = "`lbx hook`";
/// Time after which a client ends a hook, in seconds; lbx gives up long before.
const SECONDS: u64 = 15;

/// Hooks in a client's file.
pub struct Guard {
    /// Names that lead to the object of the events.
    pub root: &'static [&'static str],
    /// Form of an entry.
    pub form: GuardForm,
    /// True if the client keeps several conversations in one process: each is a session then.
    pub by_conversation: bool,
}

/// Form of an entry in a client's file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GuardForm {
    /// In a group with a pattern of tools, with a time in seconds.
    Grouped,
    /// Like [`Self::Grouped`], with a time in milliseconds.
    GroupedMilliseconds,
    /// In a group for events about tools only, which do not say their names.
    GroupedTools,
    /// With its type.
    Flat,
    /// For the shell, with a pattern, for events that do not say their names.
    Shell,
    /// Only the command, with a pattern.
    Bare,
}

impl Guard {
    /// Returns the events of a client that it sets up, each with its meaning.
    fn events(whom: For<'_>) -> &'static [(&'static str, Moment)] {
        HookClient::find(whom.client).map_or(&[], |client| client.events)
    }

    /// Returns the names that lead to the list of an event.
    fn path(&self, event: &'static str) -> Vec<&'static str> {
        [self.root, &[event]].concat()
    }

    /// Returns a text with the hooks; those for compactions alone give way to them.
    ///
    /// # Errors
    /// Returns the reason why they cannot be added.
    pub fn put(&self, text: &str, whom: For<'_>) -> Result<String, Fault> {
        Self::events(whom).iter().try_fold(text.to_owned(), |text, (event, moment)| {
            let path = self.path(event);
            // A client may know an event by two names.
            let other = [
                event.get(..1).unwrap_or_default().to_uppercase().as_str(),
                event.get(1..).unwrap_or_default(),
            ]
            .concat();
            let text = jsonc::remove_items(&text, &[self.root, &[other.as_str()]].concat(), HOOK_SIGN)?;
            let text = jsonc::remove_items(&text, &path, HOOK_SIGN)?;
            jsonc::add_item(&text, &path, GUARD_SIGN, &self.item(whom, event, *moment))
        })
    }

    /// Returns a text without the hooks.
    ///
    /// # Errors
    /// Returns the reason why they cannot be removed.
    pub fn take_out(&self, text: &str, whom: For<'_>) -> Result<String, Fault> {
        Self::events(whom).iter().try_fold(text.to_owned(), |text, (event, _)| {
            jsonc::remove_items(&text, &self.path(event), GUARD_SIGN)
        })
    }

    /// Returns the entry of an event.
    fn item(&self, whom: For<'_>, event: &str, moment: Moment) -> Value {
        let command = self.command(whom, event);
        let matcher = matcher(whom, moment);
        let called = |time: u64| json!({ "type": "command", "command": command, "timeout": time });
        match self.form {
            GuardForm::Grouped | GuardForm::GroupedTools if matcher.is_some() => {
                json!({ "matcher": matcher, "hooks": [called(SECONDS)] })
            }
            GuardForm::Grouped => json!({ "hooks": [called(SECONDS)] }),
            GuardForm::GroupedMilliseconds => {
                with_matcher(json!({ "hooks": [called(SECONDS * 1000)] }), matcher)
            }
            GuardForm::GroupedTools | GuardForm::Flat => called(SECONDS),
            GuardForm::Shell => {
                with_matcher(json!({ "type": "command", "bash": command, "timeoutSec": SECONDS }), matcher)
            }
            GuardForm::Bare => with_matcher(json!({ "command": command, "timeout": SECONDS }), matcher),
        }
    }

    /// Returns the command of the hook of an event.
    fn command(&self, whom: For<'_>, event: &str) -> String {
        let is_named = matches!(self.form, GuardForm::Shell | GuardForm::GroupedTools);
        let event = if is_named { format!(" {event}") } else { String::new() };
        let session = format!(" --session {}@parent", whom.client);
        let session = if self.by_conversation { "" } else { session.as_str() };
        format!("{GUARD_SIGN}{}{event}{session}", whom.client)
    }
}

/// Returns the pattern of the tools whose events lbx serves; `None` for an event without a tool.
fn matcher(whom: For<'_>, moment: Moment) -> Option<String> {
    let is_wanted = |kind: ToolKind| match moment {
        Moment::Before | Moment::Failed => kind != ToolKind::Read,
        Moment::After => true,
        _ => false,
    };
    let client = HookClient::find(whom.client).filter(|_| is_wanted(ToolKind::Edit))?;
    let wanted = client.tools.iter().filter(|(_, kind)| is_wanted(*kind));
    Some(wanted.map(|(name, _)| *name).collect::<Vec<_>>().join("|"))
}

/// Returns an entry with a pattern, if there is one.
fn with_matcher(mut entry: Value, matcher: Option<String>) -> Value {
    if let (Some(fields), Some(matcher)) = (entry.as_object_mut(), matcher) {
        fields.insert("matcher".to_owned(), matcher.into());
    }
    entry
}
