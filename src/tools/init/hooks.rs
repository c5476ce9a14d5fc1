//! How a client tells lbx of its events: hooks in its configuration, or a plugin if that has no hooks. Without a guard
//! they tell only when a context was compacted; a guard passes each event to `lbx hook`.

use serde_json::{Value, json};

use crate::text::jsonc::{self, JsonFault};
use crate::tools::hook::client::{CLIENTS, HookClient, Moment, ToolKind};

/// Beginning of the command of each hook, as JSON, by which they are found again.
const GUARD_SIGN: &str = "\"lbx hook ";
/// Word in a plugin that lbx wrote, if it guards.
pub const PLUGIN_SIGN: &str = "`lbx hook`";
/// Time after which a client ends a hook, in seconds; lbx gives up long before.
const SECONDS: u64 = 15;
/// Time after which a client ends a hook that copies a workspace, in seconds.
const COPY_SECONDS: u64 = 600;

/// Hooks in a client's file.
pub struct Guard {
    /// Names that lead to the object of the events.
    pub root: &'static [&'static str],
    /// Form of an entry.
    pub form: GuardForm,
    /// True if the client keeps several conversations in one process: each is a session then.
    pub by_conversation: bool,
    /// True for the hooks about worktrees alone.
    pub worktrees: bool,
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
    fn events(&self, whom: Recipient<'_>) -> &'static [(&'static str, Moment)] {
        let events = |client: &HookClient| if self.worktrees { client.worktrees } else { client.events };
        HookClient::find(whom.client).map_or(&[], events)
    }

    /// Returns the names that lead to the list of an event.
    fn path(&self, event: &'static str) -> Vec<&'static str> {
        [self.root, &[event]].concat()
    }

    /// Returns a text with the hooks; those for compactions alone give way to them.
    ///
    /// # Errors
    /// Returns the reason why they cannot be added.
    pub fn put(&self, text: &str, whom: Recipient<'_>) -> Result<String, JsonFault> {
        self.events(whom).iter().try_fold(text.to_owned(), |text, (event, moment)| {
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
    pub fn remove_hooks(&self, text: &str, whom: Recipient<'_>) -> Result<String, JsonFault> {
        self.events(whom).iter().try_fold(text.to_owned(), |text, (event, _)| {
            jsonc::remove_items(&text, &self.path(event), GUARD_SIGN)
        })
    }

    /// Returns the entry of an event.
    fn item(&self, whom: Recipient<'_>, event: &str, moment: Moment) -> Value {
        let command = self.command(whom, event);
        let matcher = matcher(whom, moment);
        let seconds = if self.worktrees { COPY_SECONDS } else { SECONDS };
        let called = |time: u64| json!({ "type": "command", "command": command, "timeout": time });
        match self.form {
            GuardForm::Grouped | GuardForm::GroupedTools if matcher.is_some() => {
                json!({ "matcher": matcher, "hooks": [called(seconds)] })
            }
            GuardForm::Grouped => json!({ "hooks": [called(seconds)] }),
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
    fn command(&self, whom: Recipient<'_>, event: &str) -> String {
        let is_named = matches!(self.form, GuardForm::Shell | GuardForm::GroupedTools);
        let event = if is_named { format!(" {event}") } else { String::new() };
        let session = format!(" --session {}@parent", whom.client);
        let session = if self.by_conversation { "" } else { session.as_str() };
        format!("lbx hook {}{event}{session}", whom.client)
    }
}

/// Returns true if a text has hooks that guard, and not only those about worktrees.
pub fn is_guarded(text: &str) -> bool {
    let signs = |text: &str| text.matches(GUARD_SIGN.trim_end()).count();
    let worktrees = CLIENTS.iter().flat_map(|client| client.worktrees).map(|(event, _)| {
        let list = jsonc::get(text, &["hooks", *event]).ok().flatten();
        list.map_or(0, |list| signs(&list.to_string()))
    });
    signs(text) > worktrees.sum() || text.contains(PLUGIN_SIGN)
}

/// Returns the pattern of the tools whose events lbx serves; `None` for an event without a tool.
fn matcher(whom: Recipient<'_>, moment: Moment) -> Option<String> {
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

/// Returns the plugin for `OpenCode`. Release 2 calls `setup`; release 1 calls `server`, and from 1.17.10 on also
/// `setup`, with a context that has no events.
pub fn opencode(whom: Recipient<'_>) -> String {
    let (head, body) = if whom.guard { (CALL, OPENCODE_GUARD) } else { (COMPACT, OPENCODE) };
    let removal = "// Written by lbx init; `lbx init --client opencode --remove` removes it.\n";
    format!("{removal}{head}{body}").replace("WORDS", "\"opencode\"").replace("NAME", "opencode")
}

/// Returns the extension for pi.
pub fn pi(whom: Recipient<'_>) -> String {
    let removal = "// Written by lbx init; `lbx init --client pi --remove` removes it.\n";
    let text = if whom.guard { format!("{removal}{CALL}{PI_GUARD}") } else { format!("{removal}{PI}") };
    // One process has one conversation, whose session a server of lbx shares.
    text.replace("WORDS", "\"NAME\", \"--session\", \"NAME@parent\"").replace("NAME", "pi")
}

/// Tells lbx that a context was compacted.
const COMPACT: &str = "\
// What was read before a compaction is no longer in the model's context.
import { execFile } from \"node:child_process\"

const compact = () =>
  new Promise((done) => execFile(\"lbx\", [\"session\", \"compact\", \"--session\", \"NAME@parent\"], () => done()))

";

/// Plugin that tells of compactions.
const OPENCODE: &str = "\
export default {
  id: \"lbx\",
  server: async () => ({
    event: async ({ event }) => {
      if (event.type === \"session.compacted\") await compact()
    },
  }),
  setup: async ({ event }) => {
    if (!event) return
    const events = event.subscribe()[Symbol.asyncIterator]()
    const follow = async () => {
      for (let next = await events.next(); !next.done; next = await events.next()) {
        if (next.value.type === \"session.compaction.ended\") await compact()
      }
    }
    follow().catch(() => {})
    return () => events.return?.()
  },
}
";

/// Extension that tells of compactions.
const PI: &str = "\
// What was read before is not in the model's context after a compaction or in a new session.
export default function (pi) {
  for (const event of [\"session_start\", \"session_compact\"]) {
    pi.on(event, () => pi.exec(\"lbx\", [\"session\", \"compact\", \"--session\", \"NAME@parent\"]))
  }
}
";

/// Passes an event to lbx; without an answer, the call goes on.
const CALL: &str = "\
// Each event goes to `lbx hook`, which gates and records what the client's own tools do.
import { spawn } from \"node:child_process\"

const hook = (event, fields) =>
  new Promise((done) => {
    const child = spawn(\"lbx\", [\"hook\", WORDS], { stdio: [\"pipe\", \"pipe\", \"ignore\"] })
    let out = \"\"
    child.stdout.on(\"data\", (part) => (out += part))
    child.on(\"error\", () => done({}))
    child.on(\"close\", () => {
      try {
        done(JSON.parse(out || \"{}\"))
      } catch {
        done({})
      }
    })
    child.stdin.on(\"error\", () => {})
    child.stdin.end(JSON.stringify({ event, ...fields }))
  })

";

/// Plugin that guards.
const OPENCODE_GUARD: &str = "\
const before = async (fields, args) => {
  const said = await hook(\"before\", { ...fields, args })
  if (said.deny) throw new Error(said.deny)
  if (said.command) args.command = said.command
}

export default {
  id: \"lbx\",
  server: async ({ client }) => ({
    \"chat.message\": async ({ sessionID, messageID }) => {
      await hook(\"prompt\", { session_id: sessionID, turn_id: messageID })
    },
    \"tool.execute.before\": ({ tool, sessionID, callID }, output) =>
      before({ tool, session_id: sessionID, call_id: callID }, output.args),
    \"tool.execute.after\": async ({ tool, sessionID, callID, args }, output) => {
      const shown = tool === \"read\" ? output.output : undefined
      const said = await hook(\"after\", { tool, session_id: sessionID, call_id: callID, args, output: shown })
      if (said.context) output.output += `\\n${said.context}`
    },
    event: async ({ event }) => {
      const session_id = event.properties?.sessionID
      if (event.type === \"session.compacted\") await hook(\"fresh\", { session_id })
      if (event.type !== \"session.idle\") return
      const { line } = await hook(\"stop\", { session_id })
      if (line) await client?.tui?.showToast?.({ body: { message: line, variant: \"info\" } })
    },
  }),
  setup: async ({ event, session, tool }) => {
    if (!event || !tool?.hook) return
    session?.hook?.(\"prompt\", ({ sessionID, messageID }) =>
      hook(\"prompt\", { session_id: sessionID, turn_id: messageID }).then(() => {}),
    )
    tool.hook(\"execute.before\", (call) =>
      before({ tool: call.tool, session_id: call.sessionID, call_id: call.id }, call.input),
    )
    tool.hook(\"execute.after\", (call) =>
      hook(call.status === \"error\" ? \"failed\" : \"after\", { tool: call.tool, session_id: call.sessionID, call_id: call.id, args: call.input }).then(
        () => {},
      ),
    )
    const ends = [\"session.execution.succeeded\", \"session.execution.failed\", \"session.execution.interrupted\"]
    const events = event.subscribe()[Symbol.asyncIterator]()
    const follow = async () => {
      for (let next = await events.next(); !next.done; next = await events.next()) {
        const { type, data, properties } = next.value
        const session_id = (data ?? properties)?.sessionID
        if (type === \"session.compaction.ended\") await hook(\"fresh\", { session_id })
        if (ends.includes(type)) await hook(\"stop\", { session_id })
      }
    }
    follow().catch(() => {})
    return () => events.return?.()
  },
}
";

/// Extension that guards.
const PI_GUARD: &str = "\
export default function (pi) {
  let turn = 0
  const fields = (ctx) => ({ session_id: ctx?.sessionManager?.getSessionId?.() ?? \"pi\", turn_id: `${turn}` })
  const call = (event, ctx) => ({
    ...fields(ctx),
    tool: event.toolName,
    call_id: event.toolCallId,
    args: event.input,
    output: event.toolName === \"read\" ? event.content : undefined,
  })
  pi.on(\"before_agent_start\", async (event, ctx) => {
    turn = Date.now()
    await hook(\"prompt\", { ...fields(ctx), prompt: event.prompt })
  })
  pi.on(\"tool_call\", async (event, ctx) => {
    const said = await hook(\"before\", call(event, ctx))
    if (said.deny) return { block: true, reason: said.deny }
    if (said.command) event.input.command = said.command
  })
  pi.on(\"tool_result\", async (event, ctx) => {
    const said = await hook(event.isError ? \"failed\" : \"after\", call(event, ctx))
    if (said.context) return { content: [...event.content, { type: \"text\", text: said.context }] }
  })
  pi.on(\"agent_end\", async (_event, ctx) => {
    const { line } = await hook(\"stop\", fields(ctx))
    if (line && ctx?.hasUI) ctx.ui.notify(line, \"info\")
  })
  for (const event of [\"session_start\", \"session_compact\"]) {
    pi.on(event, (_event, ctx) => hook(\"fresh\", fields(ctx)))
  }
}
";

/// Beginning of the command of hooks for compactions, as JSON, by which they are found again.
pub const HOOK_SIGN: &str = "\"lbx session compact";

/// Client and arguments that a piece is made for.
#[derive(Clone, Copy)]
pub struct Recipient<'a> {
    /// Client's name, with which its sessions begin.
    pub client: &'static str,
    /// Program that the client starts: `lbx`, or its path.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: &'a [String],
    /// True if its own tools are guarded.
    pub guard: bool,
}
