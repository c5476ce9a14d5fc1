//! Plugins for clients whose configuration has no hooks: they tell lbx when a context was compacted and, if the
//! client's own tools are guarded, pass each event to `lbx hook`.

use super::purpose::For;

/// Returns the plugin for `OpenCode`. Release 2 calls `setup`; release 1 calls `server`, and from 1.17.10 on also
/// `setup`, with a context that has no events.
pub fn opencode(whom: For<'_>) -> String {
    let (head, body) = if whom.guard { (CALL, OPENCODE_GUARD) } else { (COMPACT, OPENCODE) };
    let removal = "// Written by lbx init; `lbx init --client opencode --remove` removes it.\n";
    format!("{removal}{head}{body}").replace("WORDS", "\"opencode\"").replace("NAME", "opencode")
}

/// Returns the extension for pi.
pub fn pi(whom: For<'_>) -> String {
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
      const said = await hook(\"after\", { tool, session_id: sessionID, call_id: callID, args })
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
