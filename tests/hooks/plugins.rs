//! The plugins that lbx writes for clients without hooks in their configuration, run as the clients run them.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{PATH_FIXED, Workspace, is_installed, skipped};

/// Runs a program of JavaScript in a workspace, with lbx on PATH; returns its JSON, or `None` without Node.js.
fn node(ws: &Workspace, program: &str) -> Option<Value> {
    if !is_installed("node") {
        skipped("no node");
        return None;
    }
    let mut command = Command::new("node");
    ws.surround(&mut command);
    let path = format!("{}:{}:{PATH_FIXED}", ws.with_program().display(), std::env::var("PATH").unwrap());
    command.env("LBX_GUARD_TIMEOUT_MS", "60000");
    command.env("PATH", path).args(["--input-type=module", "-e", program]).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn opencode_plugin_gates_and_records_in_both_releases() {
    for release in [1, 2] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.lbx(&["init", "opencode", "--guard", "--no-server"]).ok();
        let program = format!(
            r#"
            import fs from "node:fs"
            const {{ default: plugin }} = await import(process.cwd() + "/.opencode/plugins/lbx.js")
            const said = {{}}
            let before, after, prompt, stop
            if ({release} === 1) {{
              const toast = async (what) => (said.line = what.body.message)
              const hooks = await plugin.server({{ client: {{ tui: {{ showToast: toast }} }} }})
              prompt = () => hooks["chat.message"]({{ sessionID: "s", messageID: "m" }}, {{}})
              before = (tool, callID, args) => hooks["tool.execute.before"]({{ tool, sessionID: "s", callID }}, {{ args }})
              after = (tool, callID, args) =>
                hooks["tool.execute.after"]({{ tool, sessionID: "s", callID, args }}, {{ output: "" }})
              stop = () => hooks.event({{ event: {{ type: "session.idle", properties: {{ sessionID: "s" }} }} }})
            }} else {{
              const hooks = {{}}
              const wait = {{}}
              const events = (async function* () {{
                await new Promise((done) => (wait.go = done))
                yield {{ type: "session.execution.succeeded", data: {{ sessionID: "s" }} }}
                wait.done()
              }})()
              await plugin.setup({{
                event: {{ subscribe: () => events }},
                tool: {{ hook: (name, call) => (hooks[name] = call) }},
                session: {{ hook: (name, call) => (hooks[name] = call) }},
              }})
              prompt = () => hooks.prompt({{ sessionID: "s", messageID: "m" }})
              before = (tool, id, input) => hooks["execute.before"]({{ tool, sessionID: "s", id, input }})
              after = (tool, id, input) =>
                hooks["execute.after"]({{ tool, sessionID: "s", id, input, status: "completed" }})
              stop = () => new Promise((done) => ((wait.done = done), wait.go()))
            }}
            await prompt()
            await before("edit", "1", {{ filePath: "a.txt" }}).catch((error) => (said.denied = error.message))
            await after("read", "2", {{ filePath: "a.txt" }})
            await before("edit", "3", {{ filePath: "a.txt" }})
            fs.writeFileSync("a.txt", "two\n")
            await after("edit", "3", {{ filePath: "a.txt" }})
            await stop()
            console.log(JSON.stringify(said))
            "#
        );
        let Some(said) = node(&ws, &program) else { return };
        assert!(said["denied"].as_str().unwrap().contains("a.txt: Read it first"), "{said}");
        if release == 1 {
            assert!(said["line"].as_str().unwrap().starts_with("1 file, +1 -1; undo: "), "{said}");
        }
        let log = ws.lbx(&["log"]).ok();
        assert_eq!(log["snapshots"][0]["tool"], "edit", "{log:#}");
        let session = log["snapshots"][0]["session"].as_str().unwrap();
        ws.lbx(&["undo", "--turn", "--session", session]).ok();
        ws.holds("a.txt", "one\n");
    }
}

#[test]
fn pi_extension_gates_and_records() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["init", "pi", "--guard", "--no-server"]).ok();
    let program = r#"
        import fs from "node:fs"
        const { default: extension } = await import(process.cwd() + "/.pi/extensions/lbx.js")
        const on = {}
        extension({ on: (name, call) => (on[name] = call) })
        const said = {}
        const ctx = { hasUI: true, ui: { notify: (line) => (said.line = line) }, sessionManager: {} }
        const call = (toolName, toolCallId) => ({ toolName, toolCallId, input: { path: "a.txt" }, content: [] })
        await on.session_start({}, ctx)
        await on.before_agent_start({ prompt: "go" }, ctx)
        said.denied = await on.tool_call(call("edit", "1"), ctx)
        await on.tool_result(call("read", "2"), ctx)
        said.allowed = (await on.tool_call(call("edit", "3"), ctx)) ?? null
        fs.writeFileSync("a.txt", "two\n")
        await on.tool_result(call("edit", "3"), ctx)
        await on.agent_end({}, ctx)
        console.log(JSON.stringify(said))
    "#;
    let Some(said) = node(&ws, program) else { return };
    assert_eq!(said["denied"]["block"], true, "{said}");
    assert_eq!(said["allowed"], Value::Null, "{said}");
    assert!(said["line"].as_str().unwrap().starts_with("1 file, +1 -1; undo: "), "{said}");
    let log = ws.lbx(&["log"]).ok();
    assert_eq!(log["snapshots"][0]["tool"], "edit");
    // A server of lbx in that process has the same session.
    let plugin = std::fs::read_to_string(ws.path(".pi/extensions/lbx.js")).unwrap();
    assert!(plugin.contains("[\"hook\", \"pi\", \"--session\", \"pi@parent\"]"), "{plugin}");
}
