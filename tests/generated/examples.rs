//! Examples of the manual pages. Each is run unchanged, in its own workspace.

use std::process::{Command, Output};

use super::common::{Workspace, in_parallel};

/// An example.
pub struct Example {
    /// Page of the example.
    pub page: &'static str,
    /// Description.
    pub about: &'static str,
    /// Shell script.
    pub script: &'static str,
    /// Text that its output contains.
    wants: &'static str,
}

/// Creates an example of a page.
const fn on(page: &'static str, about: &'static str, script: &'static str, wants: &'static str) -> Example {
    Example { page, about, script, wants }
}

/// Returns the examples of a page.
pub fn of(page: &str) -> impl Iterator<Item = &'static Example> {
    EXAMPLES.iter().filter(move |example| example.page == page)
}

/// All examples.
const EXAMPLES: &[Example] = &[
    on(
        "lbx",
        "Read a file, change it, and take the change back:",
        "lbx read src/main.rs\nlbx edit src/main.rs --old-string hello --new-string hi\nlbx undo",
        "undone",
    ),
    on(
        "lbx",
        "See what the session has changed, as a patch:",
        "lbx append notes.txt --content 'four\n'\nlbx diff --text",
        "+four",
    ),
    on(
        "lbx",
        "The same call as JSON:",
        "lbx read --json '{\"path\":\"notes.txt\",\"limit\":2}'",
        "\"truncated\":true",
    ),
    on("read", "Lines 2 and 3:", "lbx read notes.txt --start-line 2 --end-line 3 --text", "two\nthree"),
    on(
        "read",
        "The last line, from each of two files:",
        "lbx read notes.txt README.md --offset -1",
        "\"files\"",
    ),
    on("read", "The block around a line:", "lbx read src/main.rs --around-line 2 --text", "println"),
    on(
        "write",
        "A new file, from stdin:",
        "lbx write docs/new.md <<'EOT'\nAny \"text\", $with \\anything.\nEOT",
        "\"created\":true",
    ),
    on(
        "write",
        "Only if the file does not exist:",
        "lbx write docs/new.md --create-only --content 'new\n'",
        "\"created\":true",
    ),
    on(
        "write",
        "What would change, as a diff:",
        "lbx read notes.txt\nlbx write notes.txt --dry-run --text <<'EOT'\none\n2\nthree\nEOT",
        "would",
    ),
    on(
        "edit",
        "One text for another:",
        "lbx read src/main.rs\nlbx edit src/main.rs --old-string hello --new-string hi",
        "\"count\":1",
    ),
    on(
        "edit",
        "Blocks on stdin need no quoting:",
        "lbx read src/main.rs\nlbx edit src/main.rs <<'EOT'\n<<<<<<< SEARCH\n    println!(\"hello\");\n=======\n    println!(\"hello, world\");\n>>>>>>> REPLACE\nEOT",
        "\"count\":1",
    ),
    on(
        "edit",
        "Every match, of which there must be three:",
        "lbx read notes.txt\nlbx edit notes.txt --old-string e --new-string E --expected-replacements 3",
        "\"count\":3",
    ),
    on(
        "patch",
        "Revert the uncommitted changes of the work tree:",
        "lbx read notes.txt\nlbx append notes.txt --content 'four\n'\ngit diff | lbx patch --reverse --text",
        "notes.txt",
    ),
    on(
        "patch",
        "Check a diff without applying it:",
        "lbx read notes.txt\nlbx patch --dry-run --text <<'EOT'\n--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\nEOT",
        "would",
    ),
    on(
        "patch",
        "The same as a Codex envelope:",
        "lbx read notes.txt\nlbx patch <<'EOT'\n*** Begin Patch\n*** Update File: notes.txt\n@@\n one\n-two\n+2\n*** End Patch\nEOT",
        "\"modify\"",
    ),
    on(
        "patch",
        "Move lines to another file, and replace one, without repeating them:",
        "lbx read notes.txt README.md\nlbx patch --text <<'EOT'\n[notes.txt]\nCUT 1.=2\nPUT 3:\n+3\n[README.md]\nPUT >$\nEOT",
        "README.md (modified)",
    ),
    on("append", "A line at the end:", "lbx append notes.txt --content 'four\n'", "\"lines_added\":1"),
    on("append", "From a pipe:", "date | lbx append log.txt", "\"created\":true"),
    on(
        "append",
        "With a reason, which the snapshot records:",
        "lbx append notes.txt --content 'four\n' --why 'Count on'\ngit log -1 --format=%b lbx-snapshots",
        "Count on",
    ),
    on(
        "prepend",
        "A line before the first:",
        "lbx prepend notes.txt --content 'zero\n'",
        "\"lines_added\":1",
    ),
    on(
        "prepend",
        "A licence before a source:",
        "printf '// SPDX-License-Identifier: MIT\n' | lbx prepend src/main.rs",
        "\"lines_added\":1",
    ),
    on("prepend", "What would change:", "lbx prepend notes.txt --content 'zero\n' --dry-run --text", "would"),
    on(
        "insert",
        "After line 1:",
        "lbx read notes.txt\nlbx insert notes.txt 1 --content 'one and a half\n'",
        "\"path\":\"notes.txt\"",
    ),
    on(
        "insert",
        "At the start:",
        "lbx read notes.txt\nlbx insert notes.txt 0 --content 'zero\n'",
        "\"path\":\"notes.txt\"",
    ),
    on(
        "insert",
        "Several lines from stdin:",
        "lbx read notes.txt\nlbx insert notes.txt 3 <<'EOT'\nfour\nfive\nEOT",
        "\"path\":\"notes.txt\"",
    ),
    on(
        "section",
        "Replace the text of a section:",
        "lbx section README.md Install --content 'Run make install.\n'",
        "\"path\":\"README.md\"",
    ),
    on(
        "section",
        "Name the section by its path:",
        "lbx section README.md 'Demo > Usage' --content 'Run it twice.\n'",
        "\"path\":\"README.md\"",
    ),
    on(
        "section",
        "Preview a change, with the text on stdin:",
        "lbx section README.md Usage --dry-run --text <<'EOT'\nRun it.\nEOT",
        "",
    ),
    on("grep", "As rg does:", "lbx grep -n hello src --text", "println"),
    on("grep", "Names of files only:", "lbx grep hello --output-mode files", "\"files\""),
    on("grep", "A literal, with a line on each side:", "lbx grep -F 'println!(' -C 1", "\"before\""),
    on("glob", "By name, at any depth:", "lbx glob '*.rs' --text", "src/main.rs"),
    on("glob", "The newest first:", "lbx glob '**' --sort mtime --limit 2", "\"total\""),
    on("glob", "Below a folder:", "lbx glob '*' src --text", "src/main.rs"),
    on("init", "List the clients:", "lbx init --text", "claude-code"),
    on(
        "init",
        "What would be written:",
        "lbx init --client cursor --dry-run --text",
        "would init: .cursor/mcp.json",
    ),
    on(
        "init",
        "Set up a client, and remove it again:",
        "lbx init --client zed\nlbx init --client zed --remove",
        "\"diff\"",
    ),
    on(
        "init",
        "Keep a client's own tools, gated, recorded and undoable by turn:",
        "lbx init claude-code --guard --no-server --text",
        "lbx hook claude-code",
    ),
    on(
        "hook",
        "Set up the hooks of a client:",
        "lbx init codex --guard --no-server --text",
        "lbx hook codex",
    ),
    on(
        "hook",
        "An edit of a file that the session has not read is denied:",
        "lbx hook claude-code --session s <<'EOT'\n{\"hook_event_name\": \"PreToolUse\", \"session_id\": \"c\", \"tool_name\": \"Edit\",\n \"tool_use_id\": \"1\", \"tool_input\": {\"file_path\": \"notes.txt\"}}\nEOT",
        "Read it first",
    ),
    on(
        "hook",
        "A prompt begins a turn; the first change after it belongs to it:",
        "lbx hook gemini BeforeAgent --session s --event '{\"prompt\": \"go\"}'\nlbx append notes.txt --content four --session s\nlbx undo --turn --session s",
        "\"tool\":\"append\"",
    ),
    on("mkdir", "A folder, with those on the way to it:", "lbx mkdir build/cache", "\"created\":true"),
    on("mkdir", "What would happen:", "lbx mkdir build --dry-run --text", "would mkdir: build"),
    on("mkdir", "Create a folder, and remove it again:", "lbx mkdir build\nlbx undo", "\"tool\":\"mkdir\""),
    on("ls", "A folder:", "lbx ls --text", "notes.txt"),
    on("ls", "Everything below, with sizes:", "lbx ls --recursive --long --text", "src/main.rs"),
    on("ls", "One level of a folder, as JSON:", "lbx ls src", "\"src/main.rs\""),
    on("bash", "A command, and what it changed:", "lbx bash 'date > now.txt'", "now.txt"),
    on(
        "bash",
        "The output alone, with the command's own status:",
        "lbx bash --text --exit-status 'wc -l notes.txt'",
        "3 notes.txt",
    ),
    on("bash", "What can confine a command here:", "lbx bash --backends --text", "namespaces"),
    on(
        "delete",
        "Delete a file and bring it back:",
        "lbx delete notes.txt\nlbx restore notes.txt",
        "\"path\":\"notes.txt\"",
    ),
    on("delete", "A folder with its contents:", "lbx delete src --recursive", "\"trash_id\""),
    on("delete", "Show what would be deleted:", "lbx delete src --recursive --dry-run --text", "would"),
    on(
        "restore",
        "The newest deleted file of that name:",
        "lbx delete notes.txt\nlbx restore notes.txt",
        "\"path\":\"notes.txt\"",
    ),
    on(
        "restore",
        "Under another name:",
        "lbx delete notes.txt\nlbx restore notes.txt --to old.txt",
        "\"path\":\"old.txt\"",
    ),
    on(
        "restore",
        "Show what would be restored:",
        "lbx delete notes.txt\nlbx restore notes.txt --dry-run --text",
        "would",
    ),
    on("move", "A file:", "lbx move notes.txt docs/notes.txt", "\"to\":\"docs/notes.txt\""),
    on("move", "A folder:", "lbx move src source", "\"to\":\"source\""),
    on("move", "What would happen:", "lbx move src source --dry-run --text", "would"),
    on(
        "undo",
        "The last change of the session:",
        "lbx append notes.txt --content 'four\n'\nlbx undo",
        "\"seq\":1",
    ),
    on(
        "undo",
        "The last two:",
        "lbx append notes.txt --content 'four\n'\nlbx append notes.txt --content 'five\n'\nlbx undo --steps 2",
        "\"seq\":2",
    ),
    on(
        "undo",
        "Preview the undo of the last change of a file:",
        "lbx append notes.txt --content 'four\n'\nlbx undo notes.txt --dry-run --text",
        "would",
    ),
    on(
        "undo",
        "All changes that answered the last prompt, where a client's hooks say which; else the last change:",
        "lbx append notes.txt --content 'four\n'\nlbx undo --turn",
        "\"seq\":1",
    ),
    on(
        "redo",
        "Redo an undone change:",
        "lbx append notes.txt --content 'four\n'\nlbx undo\nlbx redo",
        "\"redone\"",
    ),
    on(
        "redo",
        "Two changes:",
        "lbx append notes.txt --content 'four\n'\nlbx append notes.txt --content 'five\n'\nlbx undo --steps 2\nlbx redo --steps 2",
        "\"redone\"",
    ),
    on(
        "redo",
        "Show what would be redone:",
        "lbx append notes.txt --content 'four\n'\nlbx undo\nlbx redo --dry-run --text",
        "would",
    ),
    on(
        "log",
        "What was done, the newest first:",
        "lbx append notes.txt --content 'four\n'\nlbx log --text",
        "append: notes.txt",
    ),
    on("log", "Of one file:", "lbx append notes.txt --content 'four\n'\nlbx log notes.txt", "\"snapshots\""),
    on(
        "log",
        "With plain git:",
        "lbx append notes.txt --content 'four\n'\ngit log --oneline --stat lbx-snapshots --not HEAD",
        "append: notes.txt",
    ),
    on(
        "log",
        "The turns, with their sizes:",
        "lbx append notes.txt --content 'four\n'\nlbx log --turns --text",
        "1 change, 1 file (+1 -0)",
    ),
    on(
        "diff",
        "What the session changed:",
        "lbx append notes.txt --content 'four\n'\nlbx diff --text",
        "+four",
    ),
    on(
        "diff",
        "Of one file, since HEAD:",
        "lbx append notes.txt --content 'four\n'\nlbx diff --from HEAD notes.txt --text",
        "+four",
    ),
    on(
        "diff",
        "A patch that git takes, binary files too:",
        "lbx append notes.txt --content 'four\n'\nlbx diff --text --binary --max-bytes 0 --from HEAD | git apply --stat",
        "notes.txt",
    ),
    on("snapshot", "Whatever was changed without lbx:", "date > now.txt\nlbx snapshot", "\"ok\":true"),
    on(
        "snapshot",
        "With a message:",
        "date > now.txt\nlbx snapshot 'Before the refactoring'\ngit log -1 --format=%s lbx-snapshots",
        "Before the refactoring",
    ),
    on("snapshot", "If nothing changed, there is no snapshot:", "lbx snapshot", "\"ok\":true"),
    on(
        "audit",
        "Every change and refusal:",
        "lbx append notes.txt --content 'four\n'\nlbx audit",
        "\"outcome\":\"ok\"",
    ),
    on(
        "audit",
        "Of one file:",
        "lbx append notes.txt --content 'four\n'\nlbx audit notes.txt --limit 5",
        "\"total\":1",
    ),
    on(
        "audit",
        "Check that nobody altered the log:",
        "lbx append notes.txt --content 'four\n'\nlbx audit --verify --limit 1",
        "\"verified\":true",
    ),
    on("session", "What was read and changed:", "lbx read notes.txt\nlbx session", "notes.txt"),
    on("session", "In words, to continue from:", "lbx read notes.txt\nlbx session brief --text", "notes.txt"),
    on(
        "session",
        "After the context was compacted:",
        "lbx read notes.txt\nlbx session compact",
        "\"ok\":true",
    ),
    on("trash", "List the trash:", "lbx delete notes.txt\nlbx trash --text", "notes.txt"),
    on("trash", "As JSON, with ids to restore by:", "lbx delete notes.txt\nlbx trash list", "\"trash_id\""),
    on("trash", "Empty the trash:", "lbx delete notes.txt\nlbx trash purge", "\"ok\":true"),
    on("gc", "Show how much would be freed:", "lbx gc --dry-run --text", "would"),
    on("gc", "What is older than two months:", "lbx gc --keep-days 60", "\"freed_bytes\""),
    on("gc", "What the policy does not keep:", "lbx gc", "\"kept\""),
    on("stats", "All calls:", "lbx append notes.txt --content 'four\n'\nlbx stats --text", "append: 1 call"),
    on("stats", "Those of one session:", "lbx stats --session alice", "\"calls\":0"),
    on("stats", "The refusals, as JSON:", "lbx stats", "\"refusals\""),
    on("doctor", "All checks:", "lbx doctor --text", "workspace"),
    on("doctor", "Fail where there is a problem:", "lbx doctor --exit-status", "\"healthy\":true"),
    on("doctor", "Repair what can lose nothing:", "lbx doctor --fix", "\"findings\""),
    on(
        "sandbox",
        "Name a workspace, and call a tool in it:",
        "lbx sandbox create 'My App' --root .\nlbx read notes.txt --sandbox my-app",
        "\"path\":\"notes.txt\"",
    ),
    on("sandbox", "All names:", "lbx sandbox create docs --root src\nlbx sandbox list --text", "docs"),
    on(
        "sandbox",
        "Forget a name; no file is deleted:",
        "lbx sandbox create docs --root src\nlbx sandbox remove docs",
        "\"ok\":true",
    ),
    on(
        "fork",
        "A fork for another agent, and a call in it:",
        "lbx fork try\nlbx --sandbox try write docs/new.md --content 'A line.'\nls",
        "\"path\":\"docs/new.md\"",
    ),
    on(
        "fork",
        "Run any program in it; the files of the workspace stay as they are:",
        "lbx fork try\nlbx fork exec try -- sh -c 'rm notes.txt; ls'\ncat notes.txt",
        "src",
    ),
    on(
        "fork",
        "All forks, and the end of one:",
        "lbx fork try --why 'another parser'\nlbx fork list --text\nlbx fork drop try",
        "another parser",
    ),
    on(
        "fork",
        "What an agent changed in a fork:",
        "lbx fork try\nlbx --sandbox try append notes.txt --content 'four\n'\nlbx fork diff try --text",
        "+four",
    ),
    on(
        "review",
        "Compare what two agents made of one task:",
        "lbx fork one\nlbx fork two\nlbx --sandbox one append notes.txt --content 'four\n'\nlbx --sandbox two append notes.txt --content '4\n'\nlbx review --forks --text",
        "notes.txt in one, two",
    ),
    on(
        "init",
        "Make each worktree of Claude Code a fork, with the files as they are:",
        "lbx init claude-code --forks --text",
        "WorktreeCreate",
    ),
    on(
        "merge",
        "Let an agent work in a fork, and merge what it did:",
        "lbx fork feature\nlbx --sandbox feature append notes.txt --content 'four\n'\nlbx merge feature --text",
        "modify: notes.txt",
    ),
    on(
        "merge",
        "Show what would merge, and where the forks overlap:",
        "lbx fork one\nlbx fork two\nlbx --sandbox one append notes.txt --content 'four\n'\nlbx --sandbox two append notes.txt --content '4\n'\nlbx merge --check --text",
        "overlap: notes.txt: one 4-4; two 4-4 (conflict)",
    ),
    on(
        "merge",
        "Merge one file, and leave the rest for later:",
        "lbx fork feature\nlbx --sandbox feature write a.txt --content a\nlbx --sandbox feature write b.txt --content b\nlbx merge feature --paths a.txt",
        "\"left\":1",
    ),
    on("config", "Every value and where it came from:", "lbx config --text", "gate ="),
    on("config", "One table, explained:", "lbx config limits --explain --text", "limits.read"),
    on(
        "config",
        "A policy file to begin with:",
        "lbx config --example --text > policy.toml\nwc -l policy.toml",
        "policy.toml",
    ),
    on(
        "apply_patch",
        "As Codex models call it:",
        "apply_patch <<'EOT'\n*** Begin Patch\n*** Add File: docs/new.md\n+A line.\n*** End Patch\nEOT",
        "docs/new.md",
    ),
    on(
        "apply_patch",
        "As an argument:",
        "lbx read notes.txt\napply_patch '*** Begin Patch\n*** Delete File: notes.txt\n*** End Patch'",
        "notes.txt",
    ),
    on(
        "apply_patch",
        "As any tool, with a JSON response:",
        "lbx apply_patch --json '{\"patch\":\"*** Begin Patch\\n*** Add File: a.md\\n+A line.\\n*** End Patch\\n\"}'",
        "a.md",
    ),
    on("schema", "A tool's request and answer:", "lbx schema read", "\"max_bytes\""),
    on("schema", "Other names of fields that are accepted:", "lbx schema edit --aliases", "\"old_str\""),
    on("schema", "All tools, for a harness:", "lbx schema > schema.json\nwc -c schema.json", "schema.json"),
    on(
        "batch",
        "Two calls in one process:",
        "lbx batch <<'EOT'\n{\"tool\":\"read\",\"request\":{\"path\":\"notes.txt\"},\"id\":1}\n{\"tool\":\"glob\",\"request\":{\"pattern\":\"*.md\"},\"id\":2}\nEOT",
        "\"id\":2",
    ),
    on(
        "batch",
        "A file that was read is changed:",
        "printf '%s\n' '{\"tool\":\"read\",\"request\":{\"path\":\"notes.txt\"}}' '{\"tool\":\"edit\",\"request\":{\"path\":\"notes.txt\",\"old_string\":\"two\",\"new_string\":\"2\"}}' | lbx batch",
        "\"count\":1",
    ),
    on(
        "review",
        "What the session did, with the commands that take it back:",
        "lbx append notes.txt --content 'four\n' --why 'Four was asked for'\nlbx review --text",
        "lbx undo --session default --seq 1",
    ),
    on(
        "review",
        "As a page for a browser:",
        "lbx append notes.txt --content 'four\n'\nlbx review --html ../review.html",
        "review.html",
    ),
    on(
        "review",
        "For a program, without the diffs:",
        "lbx append notes.txt --content 'four\n'\nlbx review --stat --pretty",
        "\"totals\"",
    ),
    on(
        "blame",
        "Who wrote each line:",
        "lbx append notes.txt --content 'four\n'\nlbx blame notes.txt --text",
        "default append #1",
    ),
    on("blame", "Of two lines only:", "lbx blame src/main.rs --start-line 1 --end-line 2", "developer"),
    on(
        "blame",
        "It follows a file through renames:",
        "lbx append notes.txt --content 'four\n'\nlbx move notes.txt list.txt\nlbx blame list.txt",
        "\"from\":\"notes.txt\"",
    ),
    on(
        "squash",
        "One commit of what the session changed, on a new branch:",
        "git config user.name Me && git config user.email me@example.org\nlbx append notes.txt --content 'four\n'\nlbx squash -m 'Add four' --onto four\ngit show --stat four",
        "Add four",
    ),
    on(
        "squash",
        "What that would commit:",
        "git config user.name Me && git config user.email me@example.org\nlbx append notes.txt --content 'four\n'\nlbx squash -m 'Add four' --dry-run --text",
        "would squash: 1 file",
    ),
    on(
        "squash",
        "Only some files, with the agent as co-author:",
        "git config user.name Me && git config user.email me@example.org\nlbx append notes.txt --content 'four\n'\nlbx squash notes.txt -m 'Add four' --co-author 'Agent <agent@example.org>'",
        "\"branch\":\"lbx/default\"",
    ),
    on(
        "watch",
        "The first call in the log, as JSON Lines:",
        "lbx append notes.txt --content 'four\n'\nlbx watch --all | head -n 1",
        "\"outcome\":\"ok\"",
    ),
    on(
        "watch",
        "A line for each call, for a person:",
        "lbx append notes.txt --content 'four\n'\nlbx watch --all --text | head -n 1",
        "append notes.txt +1 -0",
    ),
    on(
        "watch",
        "As a request, which returns at once and names the next cursor:",
        "lbx append notes.txt --content 'four\n'\nlbx watch --json '{\"all\":true}'",
        "\"next\"",
    ),
    on(
        "rewind",
        "Show what going back to the snapshot before the last would undo:",
        "lbx append notes.txt --content 'four\n'\nlbx append notes.txt --content 'five\n'\nlbx rewind lbx-snapshots~1 --text",
        "would undo: append: notes.txt (change 2)",
    ),
    on(
        "rewind",
        "Show what going back to before a turn would undo:",
        "lbx append notes.txt --content 'four\n'\nlbx append notes.txt --content 'five\n'\nlbx rewind --turn 2 --text",
        "would undo: append: notes.txt (change 2)",
    ),
    on(
        "rewind",
        "Do it:",
        "lbx append notes.txt --content 'four\n'\nlbx append notes.txt --content 'five\n'\nlbx rewind lbx-snapshots~1 --yes",
        "\"undone\"",
    ),
    on(
        "rewind",
        "Undo the rewind:",
        "lbx append notes.txt --content 'four\n'\nlbx append notes.txt --content 'five\n'\nlbx rewind lbx-snapshots~1 --yes\nlbx undo --text",
        "undo: rewind",
    ),
    on(
        "batch",
        "Other programs make the requests:",
        "git ls-files '*.md' | sed 's/.*/{\"tool\":\"read\",\"request\":{\"path\":\"&\"}}/' | lbx batch",
        "README.md",
    ),
    on(
        "mcp",
        "Check that the server responds:",
        "printf '%s\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}' | lbx mcp",
        "\"id\":1",
    ),
    on("mcp", "For clients that show a model the text only:", "lbx mcp --results text < /dev/null", ""),
    on("mcp", "With the tools that Claude models know:", "lbx mcp --dialect claude < /dev/null", ""),
    on(
        "squash",
        "On the branch that is checked out:",
        "git config user.name Me && git config user.email me@example.org\nlbx append notes.txt --content 'four\n'\nlbx squash -m 'Add four' --checked-out\ngit log -1 --format=%s",
        "Add four",
    ),
    on("watch", "Follow one session until Ctrl+C:", "timeout -s INT 1 lbx watch --session alice || true", ""),
];

/// Files of an example.
const FILES: [(&str, &str); 3] = [
    ("notes.txt", "one\ntwo\nthree\n"),
    ("src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n"),
    ("README.md", "# Demo\n\n## Install\n\nRun make.\n\n## Usage\n\nRun it.\n"),
];

/// Runs shell lines in which lbx is found under its names.
pub fn run(ws: &Workspace, script: &str, variables: &[(&str, &str)]) -> Output {
    ws.write("../home/.gitconfig", "[user]\n\tname = A Developer\n\temail = developer@example.com\n");
    let names = ws.path("../names");
    std::fs::create_dir_all(&names).unwrap();
    // zsh remembers no program of a folder with `..` in its path, and takes the one that the machine has.
    let names = names.canonicalize().unwrap();
    for name in ["lbx", "apply_patch"] {
        let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lbx"), names.join(name));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("sh")
        .args(["-ec", script])
        .current_dir(ws.path("."))
        .env_clear()
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .env("PATH", format!("{}:{path}", names.display()))
        .env("HOME", ws.path("../home"))
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn manual_page_examples_work_as_stated() {
    let faults = in_parallel(EXAMPLES, |example| {
        let output = run(&Workspace::with(&FILES), example.script, &[]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && said.contains(example.wants) {
            return None;
        }
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        Some(format!("{}: {}\n{said}{complaint}", example.page, example.script))
    });
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn every_tool_page_has_three_examples() {
    let tree = lbx::cli::commands::tree();
    for tool in tree.get_subcommands().map(clap::Command::get_name).chain(["lbx"]) {
        assert!(of(tool).count() >= 3, "{tool}: fewer than three examples");
    }
}

/// Returns the blocks of the README in that language.
fn blocks(language: &str) -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let begin = format!("```{language}\n");
    // The text lives as long as the program.
    let begin: &'static str = Box::leak(begin.into_boxed_str());
    readme.split(begin).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn readme_transcript_matches_the_real_output() {
    let ws = Workspace::with(&FILES);
    let transcript = blocks("console")[0];
    let commands = transcript.lines().filter_map(|line| line.strip_prefix("$ "));
    let mut said = String::new();
    for command in commands {
        let output = run(&ws, &format!("{command} 2>&1 || true"), &[("LBX_OUTPUT", "text")]);
        said.extend(["$ ", command, "\n", &String::from_utf8_lossy(&output.stdout)]);
    }
    assert_eq!(said, transcript);
    // The first block installs and tests; the others continue in the same workspace.
    for script in &blocks("sh")[1..] {
        let output = run(&ws, script, &[]);
        assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stdout));
    }
    for block in blocks("json") {
        serde_json::from_str::<serde_json::Value>(block).unwrap();
    }
}

#[test]
fn agents_page_is_short_and_names_existing_tools() {
    let ws = Workspace::with(&FILES);
    let output = run(&ws, "lbx help agents", &[]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.len() < 2000, "{} bytes", page.len());
    for call in page.split("lbx ").skip(1).filter_map(|rest| rest.split([' ', ',', '`', '\n']).next()) {
        let is_tool = lbx::catalog::find(call).is_some() || call == "TOOL";
        assert!(is_tool || !call.chars().all(char::is_alphabetic) || call.is_empty(), "{call}");
    }
    let help = run(&ws, "lbx help read", &[]);
    assert_eq!(help.stdout, run(&ws, "lbx read --help", &[]).stdout);
    assert!(run(&ws, "lbx help", &[]).status.success());
}
