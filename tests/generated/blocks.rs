//! Code blocks of the manual pages, apart from their examples, and of the README. A test uses each as its reader would.
//! A block that no test here knows is a failure.

use std::process::Output;

use serde_json::{Value, json};

use super::common::Workspace;
use super::examples::run;
use super::prose;

/// Asks an MCP server for one file.
const MCP_LINES: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
"#;

/// A block with its place.
struct Block {
    /// Page and section.
    place: String,
    /// Lines of the block.
    text: String,
}

/// A check that uses a block.
type Use = fn(&str);

/// Every block and its check, by the page, the section and the first distinguishing word.
const USES: &[(&str, &str, Use)] = &[
    ("edit: WHAT MATCHES", "trailing_whitespace", each_tier_of_the_table_finds_its_text),
    ("edit: SKETCHES", "# ...", sketch_replaces_the_part_between_its_markers),
    ("patch: EDITS BY LINE", "PUT", each_operation_does_what_its_row_says),
    ("bash: NETWORK", "bash.network = [", host_list_gives_a_proxy),
    ("bash: TOOLCHAINS", "cargo", every_toolchain_row_works),
    ("bash: JOBS", "lbx bash -b", job_calls_work_in_sequence),
    ("session: AFTER A CONTEXT WAS COMPACTED", "{\"hooks\"", hook_compacts_and_prints_a_brief),
    ("squash: WHAT IS COMMITTED", "git checkout", git_alone_commits_the_changes),
    ("hook: CLIENTS", "Claude Code", guard_writes_the_file_of_each_row),
    ("batch: LINES", "{\"tool\"", batch_line_gets_a_response),
    ("mcp: CLIENTS", "NAME", every_client_row_names_its_file),
    ("mcp: PLUGIN", "claude plugin", init_names_each_command_that_installs_the_plugin),
    ("json: REQUESTS", "lbx read", three_request_forms_give_one_response),
    ("json: RESPONSES", "{\"ok\":true", responses_have_the_listed_fields),
    ("policy: SOURCES", "the default", later_source_wins),
    ("policy: EXAMPLE", "protect", example_globs_are_protected),
    ("dialects: DESCRIPTION", "lbx mcp", every_dialect_call_works),
    ("dialects: A FOLDER FOR THE MEMORY", "lbx mcp", every_dialect_call_works),
    ("README: sh 1", "./install.sh --demo", first_commands_are_tested),
    ("README: console 1", "$ lbx edit", tested_in_examples),
    ("README: text 1", "Use lbx", calls_for_agents_exist),
    ("README: sh 2", "lbx write", tested_in_examples),
    ("README: json 1", "{\"mcpServers\"", configuration_starts_a_server),
    ("README: sh 3", "lbx init claude-code --guard", guard_of_a_client_makes_its_turn_undoable),
    ("README: sh 4", "lbx fork parser", tested_in_examples),
    ("README: sh 5", "lbx log", tested_in_examples),
];

/// Returns all blocks.
fn blocks() -> Vec<Block> {
    let tree = lbx::cli::commands::tree();
    let mut pages: Vec<(String, &[prose::Section])> = tree
        .get_subcommands()
        .filter(|command| command.get_name() != "apply_patch")
        .map(|command| (command.get_name().to_owned(), prose::sections_of(command.get_name())))
        .collect();
    for (page, sections) in [("json", prose::JSON), ("policy", prose::POLICY), ("dialects", prose::DIALECTS)]
    {
        pages.push((page.to_owned(), sections));
    }
    let mut found = Vec::new();
    for (page, sections) in pages {
        for (title, text) in sections {
            let verbatim = text.trim_matches('\n').split("\n\n").filter_map(prose::verbatim);
            found.extend(verbatim.map(|text| Block { place: format!("{page}: {title}"), text }));
        }
    }
    let mut fences = include_str!("../../README.md").split("```").skip(1).step_by(2);
    let mut counts = std::collections::BTreeMap::new();
    for (language, text) in fences.by_ref().filter_map(|fence| fence.split_once('\n')) {
        let count = counts.entry(language).or_insert(0);
        *count += 1;
        found.push(Block { place: format!("README: {language} {count}"), text: text.to_owned() });
    }
    found
}

#[test]
fn tests_use_every_block_of_the_manual_and_the_readme() {
    let blocks = blocks();
    assert_eq!(blocks.len(), USES.len(), "{:?}", blocks.iter().map(|block| &block.place).collect::<Vec<_>>());
    for Block { place, text } in blocks {
        let is_it = |of: &&(&str, &str, Use)| of.0 == place && text.trim_start().starts_with(of.1);
        let (_, _, uses) = USES.iter().find(is_it).unwrap_or_else(|| panic!("no test uses {place}:\n{text}"));
        uses(&text);
    }
}

/// Each row has two clients with the file that `init --guard` writes.
fn guard_writes_the_file_of_each_row(text: &str) {
    let rows = text.lines().flat_map(|line| line.trim().split("   ").filter(|part| !part.is_empty()));
    let words: Vec<&str> = rows.map(str::trim).collect();
    for pair in words.chunks(2) {
        let client = match pair[0] {
            "Qwen Code" => "qwen-code".to_owned(),
            "Gemini CLI" => "gemini".to_owned(),
            "VS Code" => "vscode".to_owned(),
            name => name.to_lowercase().replace(' ', "-"),
        };
        let ws = Workspace::with(&[]);
        ws.lbx(&["init", &client, "--guard", "--no-server"]).ok();
        assert!(String::from_utf8_lossy(&ws.read_bytes(pair[1])).contains("lbx hook"), "{client}");
    }
}

/// The first command sets the hooks up; the second takes back what a turn changed.
fn guard_of_a_client_makes_its_turn_undoable(text: &str) {
    let ws = Workspace::with(&[]);
    let commands: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    let turn = "for event in UserPromptSubmit PreToolUse PostToolUse Stop; do
            [ $event = PostToolUse ] && echo made > made.txt
            echo '{\"hook_event_name\": \"'$event'\", \"prompt_id\": \"p\", \"tool_use_id\": \"1\", \"tool_name\": \"Write\",
                \"tool_input\": {\"file_path\": \"made.txt\"}}' | lbx hook claude-code --session s
        done; test -f made.txt";
    let script = format!("{} --no-server\n{turn}\n{} --session s", commands[0], commands[1]);
    let output = run(&ws, &script, &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(!ws.path("made.txt").exists());
}

/// Each command is one that `init` names when it writes the folder.
fn init_names_each_command_that_installs_the_plugin(text: &str) {
    let ws = Workspace::with(&[]);
    let told = ws.lbx(&["init", "--plugin", "plugin"]).ok()["text"].as_str().unwrap().to_owned();
    let folder = ws.path("plugin").display().to_string();
    let commands = text.lines().flat_map(|line| line.split("     ")).map(str::trim);
    for command in commands.filter(|command| !command.is_empty()) {
        let command = command.replace("DIR", &folder);
        assert!(told.contains(&format!("`{command}`")), "{command}: {told}");
    }
}

/// A project with the files that the blocks name.
fn project() -> Workspace {
    let lines: String = (1..=80).map(|number| format!("// line {number}\n")).collect();
    Workspace::with(&[("src/main.rs", &lines), ("notes.txt", "one\ntwo\nthree\n")])
}

/// Returns the output of a command; fails if the command fails.
#[track_caller]
fn said(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{out}{error}");
    out
}

/// Returns the commands of a block, without the text next to them.
fn commands(block: &str) -> Vec<&str> {
    block.lines().filter_map(|line| line.split("  ").next()).filter(|line| !line.is_empty()).collect()
}

/// Each operation of the table, on a file of nine lines, has the result that its row describes.
fn each_operation_does_what_its_row_says(block: &str) {
    let nine: String = (1..=9).map(|number| format!("{number}\n")).collect();
    let results = [
        "1 2 new 6 7 8 9",
        "1 2 new 3 4 5 6 7 8 9",
        "1 2 3 new 4 5 6 7 8 9",
        "1 2 6 7 8 9",
        "1 3 4 5 6 7 8 9 2",
        "",
        "1 2 3 4 5 6 7 8 9",
    ];
    assert_eq!(commands(block).len(), results.len());
    for (operation, result) in commands(block).into_iter().zip(results) {
        let ws = Workspace::with(&[("f", &nine)]);
        ws.lbx(&["read", "f"]).ok();
        let operation = operation.trim();
        let patch = match operation {
            "PUT >9 @x" => format!("[f]\nCUT 2 @x\n{operation}\n"),
            _ if operation.ends_with(':') => format!("[f]\n{operation}\n+new\n"),
            _ => format!("[f]\n{operation}\n"),
        };
        ws.lbx_stdin(&["patch"], &patch).ok();
        let name = if operation == "MV NEW" { "NEW" } else { "f" };
        let found = std::fs::read_to_string(ws.path(name)).unwrap_or_default();
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), result, "{operation}");
    }
}

/// Checks that a policy with the block is valid, and that its commands have a proxy.
fn host_list_gives_a_proxy(block: &str) {
    let ws = project();
    let policy = ws.outside.join("home/.config/lbx/config.toml");
    std::fs::create_dir_all(policy.parent().unwrap()).unwrap();
    std::fs::write(policy, block).unwrap();
    let listed = ws.lbx(&["config", "bash.network"]).ok()["settings"][0]["value"].clone();
    assert_eq!(listed, json!(["*.example.org", "packages.example.net:8443"]));
    let answer = ws.lbx(&["bash", "printenv HTTPS_PROXY"]).ok();
    assert!(answer["stdout"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{answer:#}");
}

/// Checks that the policy takes the hosts of all rows as one list, and that git works as its row says.
fn every_toolchain_row_works(block: &str) {
    let rows: Vec<&str> = block
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split([' ', ',']).next())
        .collect();
    assert_eq!(rows, ["cargo", "go", "npm", "pip", "uv", "make", "git"]);
    let ws = project();
    let words = block.split([' ', ',', '\n']).filter(|word| word.contains('.') && !word.starts_with('.'));
    let hosts: Vec<&str> = words.filter(|word| !word.ends_with('.')).collect();
    assert_eq!(hosts.len(), 8, "{hosts:?}");
    let setting = format!("bash.network={}", hosts.join(","));
    ws.lbx(&["bash", "--set", &setting, "true"]).ok();
    let reads = "git status --short && git diff && git log --oneline && git blame notes.txt";
    assert_eq!(ws.lbx(&["bash", reads]).ok()["exit_code"], 0);
    let answer = ws.lbx(&["bash", "git commit --allow-empty -m second"]).success();
    assert_eq!(answer["data"]["exit_code"], 128);
    assert!(answer["warnings"].to_string().contains("`lbx squash`"), "{answer:#}");
}

/// Checks that each row names a tier that finds the text of the row.
fn each_tier_of_the_table_finds_its_text(block: &str) {
    let cases = [
        ("trailing_whitespace", "let a = 1;   \nlet b = 2;\n", "let a = 1;\nlet b = 2;\n", "let c = 3;\n"),
        (
            "indentation",
            "    if a {\n        b();\n    }\n",
            "if a {\n    b();\n}\n",
            "if a {\n    c();\n}\n",
        ),
        ("typographic", "say \u{201c}hello\u{201d}\n", "say \"hello\"\n", "say \"goodbye\"\n"),
        ("line_numbers", "first();\nsecond();\n", "     1\tfirst();\n     2\tsecond();\n", "third();\n"),
        ("escapes", "first();\nsecond();\n", "first();\\nsecond();", "third();"),
        ("blank_lines", "first();\n\nsecond();\n", "first();\nsecond();\n", "first();\nthird();\n"),
    ];
    let named: Vec<&str> = block
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(named, cases.map(|case| case.0));
    for (tier, text, old, new) in cases {
        let ws = Workspace::with(&[("a.txt", text)]);
        ws.lbx(&["read", "a.txt"]).ok();
        let request = json!({"path": "a.txt", "old_string": old, "new_string": new, "match": "flexible"});
        assert_eq!(ws.json("edit", &request).ok()["match"], tier, "{old:?}");
    }
}

/// Checks that the sketch changes the method that it shows, and nothing else.
fn sketch_replaces_the_part_between_its_markers(block: &str) {
    let before = "import sys\n\nclass Cart:\n    def total(self, items):\n        cost = 0\n        return sum(item.price for item in items)\n\n    def size(self):\n        return 1\n";
    let ws = Workspace::with(&[("cart.py", before)]);
    ws.lbx(&["read", "cart.py"]).ok();
    ws.lbx(&["edit", "cart.py", "--sketch", block]).warned("the sketch omits line 5");
    ws.holds("cart.py", before.replace("        cost = 0\n", ""));
}

/// Starts, queries, stops and lists a job.
fn job_calls_work_in_sequence(block: &str) {
    let ws = project();
    ws.write("../names/npm", "#!/bin/sh\necho serving; exec sleep 60\n");
    ws.chmod("../names/npm", 0o755);
    for command in commands(block) {
        // The available backends differ by machine; only the calls matter here.
        said(&run(&ws, command, &[("LBX_BASH_BACKEND", "none")]));
    }
}

/// Checks that the hook's command uses the harness's session.
fn hook_compacts_and_prints_a_brief(block: &str) {
    let settings: Value = serde_json::from_str(block).unwrap();
    let hook = &settings["hooks"]["SessionStart"][0];
    assert_eq!(hook["matcher"], "compact");
    let ws = project();
    ws.lbx(&["read", "notes.txt", "--session", "default"]).ok();
    let brief = said(&run(&ws, hook["hooks"][0]["command"].as_str().unwrap(), &[]));
    assert!(brief.contains("notes.txt"), "{brief}");
    ws.lbx(&["write", "notes.txt", "--content", "x"]).error("not_read");
}

/// Checks that the branch has the changes in one commit.
fn git_alone_commits_the_changes(block: &str) {
    let ws = project();
    ws.lbx(&["append", "notes.txt", "--content", "four\n"]).ok();
    ws.lbx(&["write", "parser.rs", "--content", "// parser\n"]).ok();
    said(&run(&ws, block, &[]));
    assert_eq!(ws.git(&["rev-parse", "parser^{tree}"]), ws.git(&["rev-parse", "lbx-snapshots^{tree}"]));
    assert_eq!(ws.git(&["status", "--porcelain"]), "");
}

/// Checks that the line gets an answer with its id.
fn batch_line_gets_a_response(block: &str) {
    let answers = project().lbx_stdin(&["batch"], format!("{block}\n")).stdout_text();
    let answer: Value = serde_json::from_str(answers.trim_end()).unwrap();
    assert_eq!((&answer["ok"], &answer["id"]), (&json!(true), &json!(1)), "{answer}");
}

/// Checks that every client has a row, and that `init` writes the file that it names.
fn every_client_row_names_its_file(block: &str) {
    let ws = project();
    let rows = block.lines().skip(1).map(|row| row.split_once(' ').unwrap());
    let rows: Vec<(&str, &str)> = rows.map(|(name, rest)| (name, rest.trim_start())).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.0).collect();
    assert_eq!(ws.lbx(&["init"]).ok()["clients"], json!(names));
    for (name, rest) in rows {
        let data = ws.lbx(&["init", "--client", name, "--dry-run"]).ok();
        match data["files"][0]["path"].as_str() {
            Some(path) => assert!(rest.split(' ').next() == Some(path), "{name}: {path}"),
            None => assert!(rest.starts_with("shown") && data["text"].is_string(), "{name}: {data:#}"),
        }
    }
}

/// Checks that the forms are one request.
fn three_request_forms_give_one_response(block: &str) {
    let ws = project();
    let answers: Vec<String> = commands(block).iter().map(|command| said(&run(&ws, command, &[]))).collect();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert!(answers[0].contains("// line 41\\n"), "{}", answers[0]);
}

/// Checks that both kinds of answer have exactly the fields shown.
fn responses_have_the_listed_fields(block: &str) {
    let shown = block.replace("{...}", "{}");
    let shown: Vec<Value> =
        serde_json::Deserializer::from_str(&shown).into_iter::<Value>().map(Result::unwrap).collect();
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().unwrap().keys().filter(|key| *key != "warnings").cloned().collect()
    };
    let ws = project();
    ws.lbx(&["read", "notes.txt"]).ok();
    let edit =
        |old: &str| ws.lbx(&["edit", "notes.txt", "--old-string", old, "--new-string", "2"]).envelope();
    let done = edit("two");
    ws.write("notes.txt", "others\n");
    let refused = edit("three");
    assert_eq!((keys(&done), keys(&refused)), (keys(&shown[0]), keys(&shown[1])));
    assert_eq!(refused["error"]["kind"], shown[1]["error"]["kind"]);
    assert_eq!(keys(&refused["error"]), keys(&shown[1]["error"]));
}

/// Checks that each line names a source with a higher priority than the lines before it.
fn later_source_wins(block: &str) {
    let ws = project();
    let config = |more: &str, variables: &[(&str, &str)]| {
        let answer: Value =
            serde_json::from_str(&said(&run(&ws, &format!("lbx config {more}"), variables))).unwrap();
        let settings = answer["data"]["settings"].as_array().unwrap().clone();
        settings.into_iter().find(|setting| setting["key"] == "limits.read").unwrap()["value"].clone()
    };
    let lines: Vec<&str> = block.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(config("", &[]), 2000);
    assert!(lines[1].starts_with("lbx/config.toml in $XDG_CONFIG_HOME, else ~/.config "));
    ws.write("../home/.config/lbx/config.toml", "limits.read = 101\n");
    assert_eq!(config("", &[]), 101);
    assert!(lines[2].starts_with(".lbx/config.toml "));
    ws.write(".lbx/config.toml", "limits.read = 102\n");
    assert_eq!(config("", &[]), 102);
    assert!(lines[3].contains("LBX_LIMITS_READ"));
    assert_eq!(config("", &[("LBX_LIMITS_READ", "103")]), 103);
    assert!(lines[4].starts_with("--set KEY=VALUE"));
    assert_eq!(config("--set limits.read=104", &[("LBX_LIMITS_READ", "103")]), 104);
}

/// Checks that no file that the policy names can be written.
fn example_globs_are_protected(block: &str) {
    let ws = project();
    ws.write(".lbx/config.toml", block);
    let names: Vec<&str> = block.split('"').skip(1).step_by(2).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let path = if name.ends_with('/') { format!("{name}settings.json") } else { name.to_owned() };
        ws.lbx(&["write", &path, "--content", "x"]).error("protected_path");
    }
    ws.lbx(&["write", "free.txt", "--content", "x"]).ok();
}

/// Checks that servers start and list tools, and that the other calls are answered.
fn every_dialect_call_works(block: &str) {
    for command in commands(block) {
        let ws = project();
        ws.write("../home/memories/today.md", "a note\n");
        let input = if command.starts_with("lbx mcp") { MCP_LINES } else { "" };
        let answers = said(&run(&ws, &format!("printf '%s' '{input}' | {command}"), &[]));
        assert!(
            !input.is_empty() || answers.contains("line 1") || answers.contains("apply_patch"),
            "{answers}"
        );
        assert!(input.is_empty() || answers.contains("\"inputSchema\""), "{command}: {answers}");
    }
}

/// Checks that the block has the commands that `tests/install.rs` runs, and the test commands.
fn first_commands_are_tested(block: &str) {
    assert_eq!(commands(block), ["./install.sh --demo", "cargo test --locked"]);
    let install = include_str!("../install.rs");
    assert!(install.contains("fn demo_runs_from_an_archive_and_suggests_the_next_step()"));
}

/// Does nothing: `readme_transcript_matches_the_real_output` runs the block.
fn tested_in_examples(_block: &str) {
    assert!(include_str!("examples.rs").contains("fn readme_transcript_matches_the_real_output()"));
}

/// Checks that every call and flag mentioned to agents exists.
fn calls_for_agents_exist(block: &str) {
    let tree = lbx::cli::commands::tree();
    let mut calls = 0;
    for call in block.split("lbx ").skip(1) {
        let word = call.split(|character: char| !character.is_ascii_alphabetic()).next().unwrap();
        let is_command = tree.find_subcommand(word).is_some();
        assert!(is_command || ["for", "help"].contains(&word), "lbx {word}");
        calls += usize::from(is_command);
    }
    assert!(calls > 8, "{calls}");
    let flags = tree.find_subcommand("edit").unwrap();
    assert!(block.contains("--why TEXT") && flags.get_arguments().any(|flag| flag.get_long() == Some("why")));
    // It accepts the forms of block that it names.
    let ws = project();
    ws.lbx(&["read", "notes.txt"]).ok();
    let markers: Vec<&str> = block
        .split_once("lbx edit PATH with ")
        .unwrap()
        .1
        .split(" blocks")
        .next()
        .unwrap()
        .split(" / ")
        .collect();
    let [search, middle, replace] = markers[..] else { panic!("{markers:?}") };
    ws.lbx_stdin(&["edit", "notes.txt"], format!("{search}\ntwo\n{middle}\n2\n{replace}\n")).ok();
    ws.holds("notes.txt", "one\n2\nthree\n");
}

/// Checks that a client with this configuration finds the tools of a project.
fn configuration_starts_a_server(block: &str) {
    let ws = project();
    let configuration: Value = serde_json::from_str(block).unwrap();
    let server = &configuration["mcpServers"]["lbx"];
    let root = ws.path(".").display().to_string();
    let words = server["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let words: Vec<&str> =
        words.map(|word| if word == "/path/to/project" { root.as_str() } else { word }).collect();
    assert!(words.contains(&root.as_str()));
    let command = format!("{} {}", server["command"].as_str().unwrap(), words.join(" "));
    let answers = said(&run(&ws, &format!("cd /; printf '%s' '{MCP_LINES}' | {command}"), &[]));
    assert!(answers.contains("\"inputSchema\""), "{answers}");
}
