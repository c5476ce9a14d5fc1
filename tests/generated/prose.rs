//! Text of the manual pages that the types do not contain.
//!
//! Blank lines separate paragraphs. A paragraph with every line indented by four spaces is kept as it is.

/// A section: its title and its text.
pub type Section = (&'static str, &'static str);

/// Returns the lines of a paragraph that is kept as it is; `None` for any other.
pub fn verbatim(paragraph: &str) -> Option<String> {
    let is_block = paragraph.lines().all(|line| line.starts_with("    "));
    let lines = || paragraph.lines().map(|line| line.get(4..).unwrap_or("")).collect::<Vec<_>>();
    is_block.then(|| lines().join("\n"))
}

/// Environment variables, as a page shows them.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("LBX_WORKSPACE", "The workspace root, as --workspace."),
    (
        "LBX_SESSION",
        "The session, as --session; it outranks NAME@parent there. Where it is unset, CLAUDE_CODE_SESSION_ID and CODEX_THREAD_ID are looked at.",
    ),
    ("LBX_SANDBOX", "A named workspace, as --sandbox."),
    (
        "LBX_OUTPUT",
        "With the value text, as --text; with json, JSON at a terminal too, where log, diff, undo, stats and others answer people in words.",
    ),
    ("LBX_DIALECT", "Tools of a model family, as --dialect."),
    ("LBX_PAGER", "The pager for those words, before PAGER; cat for none. Without either it is less."),
    ("NO_COLOR", "Where it is set, no colours at a terminal."),
    (
        "LBX_STATE_ID",
        "The id of the state, 32 hexadecimal digits: where several machines or containers share a workspace and its history.",
    ),
];

/// Exit statuses under `--exit-status` for tools that report more than success.
pub const EXIT_STATUS: &[(&str, &str)] = &[
    ("grep", "With --exit-status or --quiet, 1 if nothing matched."),
    ("read", "With --text, that of the first file that cannot be read."),
    ("glob", "With --exit-status, 1 if nothing was found."),
    ("diff", "With --exit-status, 1 if there is a difference."),
    ("doctor", "With --exit-status, 1 if there is a problem."),
    (
        "bash",
        "With --text or --exit-status, the command's own status: 124 at the time limit, 128 + N where signal N ended it, \
         and 125 where lbx itself failed.",
    ),
    ("batch", "The status of a batch is 0, or that of the first request that failed."),
];

/// Files that lbx writes, as a page shows them.
pub const FILES: &[(&str, &str)] = &[
    (
        ".lbx/",
        "What lbx keeps at the workspace root; git ignores it by the .gitignore in it. git clean -xdf spares the state but removes that file, as it does any ignored file: git status shows .lbx/ then, and git add -A stops at it, until the next call of lbx writes it again. git clean -xdf -e .lbx keeps it.",
    ),
    (
        ".lbx/ID/",
        "State of one account. It holds the sessions, the journal, the audit log, backups of every replaced file, and the trash.",
    ),
    (".lbx/config.toml", "Policy of the workspace, which may be committed."),
    (
        "$XDG_STATE_HOME/lbx/id",
        "The secret from which the name of the state in each workspace is derived, 32 hexadecimal digits; ~/.local/state/lbx/id by default. lbx config shows that name.",
    ),
    (
        "refs/heads/lbx-snapshots",
        "The branch with one commit for every change; git log lbx-snapshots shows it. In a linked worktree it is lbx-snapshots-NAME.",
    ),
];

/// Returns the additional sections of a tool's page.
pub fn sections_of(tool: &str) -> &'static [Section] {
    match tool {
        "edit" => EDIT,
        "patch" | "apply_patch" => PATCH,
        "bash" => BASH,
        "session" => SESSION,
        "batch" => BATCH,
        "undo" => UNDO,
        "squash" => SQUASH,
        "fork" => FORK,
        "config" => CONFIG,
        "mcp" => MCP,
        "hook" => HOOK,
        _ => &[],
    }
}

/// Git in a fork.
const FORK: &[Section] = &[
    (
        "FOLDER OF A COPY",
        "
The files of the workspace must not become settings or programs of the user. --at takes a new folder next to the
workspace, unless it is hidden or on PATH. In the home folder, and below a hidden one, its name must be that of the
workspace with an ending, as app.copy next to app. Any other folder needs loosen = [\"workspace\"] in the user's file, see
lbx-policy(5).
",
    ),
    (
    "GIT IN A FORK",
    "
A fork shares the repository of the workspace, and programs in it only read that: git commit and git checkout -b fail with
\"couldn't set\", since the branches belong to the workspace. Merge the fork, then commit there. What git stash puts away in a
fork is in the fork alone, and is deleted with it.
",
    ),
];

/// Guarding of a client's own tools.
const HOOK: &[Section] = &[
    (
        "HOW IT GUARDS",
        "
A prompt begins a turn of the session, and the end of the answer ends it; its last line names what changed and the undo
for all of it (lbx undo --turn). Before a file tool of the client, a call is denied if the session has not seen the
file's present bytes, with the diff since it has; the client's own reads count as seen, line by line, if they showed what
is in the file. A patch that names its old lines needs no read. A call is denied as well for a path that no tool of lbx
writes, and for a file that another session is changing at that moment. After the tool, what changed is a change of the
session: journaled, backed up, committed to the snapshot branch, undoable.

A command of the client's own shell may change any file. lbx looks at the workspace before and after it, git-ignored
files included (up to bash.ignored_bytes), so that an undo brings back .env as well; such files never enter git. A look
takes about as long as git status; with more than guard.files files lbx looks before the first command of a turn and at
its end only, unless another session has a turn at the same time. Commands at once, and those in the background, are recorded when the last has ended, or with the turn.
What the user does between two turns stays the user's. A call whose end no event reported before the next prompt was
rejected, or broken off: only a file that holds exactly what the call would have made of it is a change of the session then.

If commands of two sessions overlap, nobody knows who wrote a file that both could have written. Such a file is
recorded as external and stays out of both undos; guard.bash = \"wrap\" runs each command by lbx bash, which keeps them
apart. What another program writes while a command runs counts as the command's.

A client that is killed leaves its last change for its next start (SessionStart), or that of the next client with its
session; a hook that is killed leaves it for the next event.

A hook serves the project that CLAUDE_PROJECT_DIR, GEMINI_PROJECT_DIR, QWEN_PROJECT_DIR or CURSOR_PROJECT_DIR names, if it
runs in a folder of it, as after a cd into a nested repository; --workspace comes first, and a linked worktree is a
workspace of its own.
",
    ),
    (
        "WORKTREES",
        "
lbx init --client claude-code --forks adds hooks for the events WorktreeCreate and WorktreeRemove; it does not need
--guard. Each worktree that Claude Code makes (claude --worktree, EnterWorktree, an agent in isolation) is then a fork: a
copy of the workspace as it is on disk, ignored and uncommitted files included, in a folder next to it, as app.login next
to app. It shares git's objects, and has branches and an index of its own. A name that is in use gets a number: login-2.

When Claude Code wants the worktree removed, lbx drops the fork if it holds nothing that is nowhere else: no file that
differs from what the fork began with, or from its last merge, and no commit of its own. Files that git ignores do not
count, as for git worktree remove. Otherwise the hook fails, the folder stays, and the message says why; lbx merge NAME
brings the changes here, and lbx fork drop NAME deletes them. It was tried with 2.1.197.
",
    ),
    (
        "SETTINGS",
        "
guard.gate is deny, warn or off. guard.bash is record, wrap or off; wrap needs a client that lets a hook change a call
(not Qwen Code). The client asks about a wrapped command as about any other, except Codex, Cursor and Antigravity: they
change a call only if the hook allows it, and lbx confines it. guard.on_failure decides about a call when lbx fails or needs more than guard.timeout_ms: open, the
default, lets it through, and says so once in a session; closed denies it. A policy file with an error denies changes and
commands until it is mended. guard.titles keeps the beginning of each prompt. See lbx-policy(5).

lbx doctor shows the newest events with their times: a client that sends none has not loaded its hooks, or does not
trust them. Codex runs a hook only once a person has trusted it (/hooks), again after each change of its entry.
",
    ),
    (
        "SESSIONS",
        "
Claude Code, Codex, Gemini CLI, Qwen Code and pi have a session for each process, which an MCP server of lbx in it
shares. Cursor, VS Code, Copilot CLI, Antigravity and OpenCode have one for each conversation, since one process keeps
several; what is read through a server does not count there. A subagent has a session of its own where the client names
it. --session names another.
",
    ),
    (
        "CLIENTS",
        "
Tried with the real programs, offline: Claude Code 2.1.197 and Codex 0.169. The others were read about only, in their
documents and sources of 2026: code.claude.com/docs/en/hooks; openai/codex codex-rs/hooks; google-gemini/gemini-cli
docs/hooks/reference.md; antigravity.google/docs/hooks; cursor.com/docs/hooks; github/docs hooks-reference.md;
microsoft/vscode-docs hooks.md; the packages of Qwen Code 0.24, OpenCode 1.18 and pi 1.6.

The event is the client's JSON on stdin; EVENT names it for clients whose JSON does not (Copilot CLI, Antigravity). The
response is the client's JSON on stdout, or nothing, and the exit status is 0 even if lbx fails (not if the event is no UTF-8): with a decision in it
only where a call is denied or changed. An event or a tool that lbx does not know is let through.

    Claude Code   .claude/settings.json           Cursor        .cursor/hooks.json
    Codex         .codex/hooks.json               VS Code       .github/hooks/lbx.json
    Gemini CLI    .gemini/settings.json           Copilot CLI   .github/copilot/settings.json
    Qwen Code     .qwen/settings.json             Antigravity   .agents/hooks.json
    OpenCode      .opencode/plugins/lbx.js        pi            .pi/extensions/lbx.js
",
    ),
];

/// Matching of an edit.
const EDIT: &[Section] = &[
    (
        "WHAT MATCHES",
        "
old_string must occur exactly once in the file, byte for byte apart from line endings. The new text takes the line
endings of the lines that it replaces; no other byte changes, in any encoding.

If old_string occurs more than once, occurrence, start_line and end_line select one match; replace_all and
expected_replacements select all of them.

Without old_string, start_line and end_line name the lines that new_string replaces. A number means the line that this
session was shown under it last, be it by read, by grep --mark or by a refusal: own and foreign changes since are
followed, so that several edits do not shift each other, in one call or in several. Where such a line changed, or was
never shown, the edit is refused and shows the lines that are there now (details.lines). The same holds for insert. A
caller that was shown nothing gives range_sha256, 8 digits or more of the SHA-256 of the lines, or expected_sha256.
New lines whose first or last repeats the line just outside the range are refused unless allow_repeat is set.

With match flexible, or match = \"flexible\" in the policy, text without an exact match is searched for with these
tiers, in this order. The first tier that finds it decides, and its match must be unique. The match field of the
response names the tier:

    trailing_whitespace  blanks at the ends of lines may differ
    indentation          all lines may be shifted alike, tabs or spaces;
                         the new text is indented as the file is
    typographic          quotes, dashes and spaces may differ; the file's
                         own stay in all that the edit keeps
    line_numbers         the prefixes of a numbered listing are ignored
    escapes              \\n, \\t and \\\" may be sent as letters
    blank_lines          blank lines, and the first or last line break,
                         may differ

There is no similarity scoring. A no_match shows the nearest lines and says which tier would have found the text.
",
    ),
    (
        "SKETCHES",
        "
A sketch is the new text with marker lines in place of unchanged lines, in any comment syntax:

    # ... existing code ...
        def total(self, items):
            return sum(item.price for item in items)
    
    # ... existing code ...

The part between two markers is located by its unchanged lines, and replaces everything from the first to the last
of them. Start and end each part with an unchanged line. An ambiguous part is an error.

What comes before the first part and after the last one stays, with or without a marker there: a sketch that ends
early deletes no tail. To delete one, put it between two unchanged lines, or use edit by line.

Without sketch, write and edit reject new text that contains such a marker, unless allow_omission is set.
",
    ),
];

/// Forms of a patch, and how a hunk is placed.
const PATCH: &[Section] = &[
    (
        "FORMATS",
        "
patch accepts what models and tools write: unified diffs, plain or git's (renames, copies, modes, symlinks, binary
files), Codex envelopes (*** Begin Patch), <<<<<<< SEARCH blocks, and edits by line, alone, in a Markdown fence or after
prose. The commits of a git format-patch series are applied in order. All files change, or none.
",
    ),
    (
        "EDITS BY LINE",
        "
A section [PATH] names a file, and the lines below it say what happens to it. No old text is repeated:

    PUT 3.=5:       replace lines 3 to 5 with the + rows below
    PUT <3:         insert the rows before line 3; PUT <1: at the start
    PUT >3:         insert them after line 3; PUT >$: at the end
    CUT 3.=5 @x     delete lines 3 to 5, and keep them as @x
    PUT >9 @x       insert @x; PUT 3.=5 @x replaces lines with it
    REM             delete the file
    MV NEW          move it

A row begins with + and is taken as it is; + alone is a blank line. One line is 3 or 3.=3. A CUT without a name is the
one that a PUT >9 without a name takes. A CUT may be pasted several times, in any file of the patch, below it.

A number means the line that this session was shown under it, as for edit, and never counts the other edits of the
patch. [PATH#TAG], with 8 digits or more of the file's SHA-256, takes the place of a read; lines then count in these
bytes. expected_sha256_by_path does so too. Rows that repeat the line just outside the lines that they replace are
refused unless allow_repeat is set. A section is known by an operation right below it. reverse and path do not go
with this form.

The language is hashline, as Oh My Pi's package @oh-my-pi/hashline 18 publishes it (README.md, grammar.lark), chosen
because models write it already, and because it moves lines from file to file. Left out is what needs a syntax tree
(N*), and registers that outlive the call.
",
    ),
    (
        "WHERE A HUNK GOES",
        "
A hunk applies at the stated line if its lines match there, otherwise where they match exactly once in the file.
Only then are weaker tiers tried. Each must match exactly once, and the response names it: trailing_space, space (at
both ends of a line) and typography (quotes, dashes, blanks). fuzz ignores outer context lines; strict turns all of
these off. Two equal matches are a patch_conflict that names both.
",
    ),
    (
        "DIFFERENCES FROM GIT AND CODEX",
        "
A later file fails: lbx and git change nothing; Codex leaves the files before it changed.

Two equal matches without a line number: lbx reports both as a conflict; Codex takes the first.

A new file or a move onto an existing file: an error in lbx and git (lbx accepts equal bytes); Codex overwrites.

A path outside the workspace, or a symlink that leads out: an error in lbx; Codex writes.

The patch is applied already: lbx returns already_applied; git fails; Codex fails, or applies it twice.

The file to delete is missing: lbx returns not_found, or already_applied if this session deleted it.

One diff creates a file and deletes it: lbx removes it; git leaves it.

Reversing the deletion of an executable or a symlink: lbx restores it as it was; git creates a plain file.

CRLF in the file and LF in the patch: new lines get the endings of the lines that they replace; git fails.

A folder left empty: removed after a diff, as with git; kept after an envelope, as with Codex.

Under the name apply_patch, old lines that match exactly once prove that the caller has seen them.
",
    ),
];

/// Files and services that a command can reach.
const BASH: &[Section] = &[
    (
        "CONFINEMENT",
        "
A command can write in the workspace, but not in .git (nested ones, the worktree's own and one that does not exist
yet included) or .lbx, and not in a folder that lbx may not look into, where a repository could be; on a layer it
may change such a folder's mode. No variable of the caller that may hold a secret is passed on, other processes are out
of reach, and there is no network unless the policy gives one (see NETWORK). lbx bash --backends lists what can confine a command here. If nothing can, the
command is not run.

Outside the workspace a command sees, read-only, what programs need: /usr, /bin, /lib, /opt, certificates, users, hosts
and the like in /etc; toolchains in the home folder (.cargo, .rustup, .nvm, .pyenv, go, ...) and those that PATH,
VIRTUAL_ENV, JAVA_HOME and similar variables of the caller name; the settings of git, and a linked worktree's
repository. The rest of the home folder and of the disk is empty. Places of secrets in what is shown, such as
~/.cargo/credentials.toml, are empty as well. bash.readable in the user's policy shows more, also a single file such as
~/.npmrc; bash.writable opens a folder. lbx doctor names paths among these that do not exist.

/tmp belongs to the session (see below), and /dev/shm holds 512 MiB. A write elsewhere outside fails, except to a cache of
a toolchain (see TOOLCHAINS).
Sockets and FIFOs of other programs are out of reach unless bash.readable names them; one inside a folder that is shown
for programs is reached. In direct mode those in the workspace that are in use are covered, so they cannot be removed.

CR LF in a command becomes LF: a shell would take the CR for a part of the word before it. To get one, write $'\\r'.

A command gets its stdin, stdout and stderr and no other descriptor of the caller. The commands and jobs of a session
share one /tmp, which is also /var/tmp; landlock names it in TMPDIR. It ends with the session (lbx session end), with
the MCP connection that has the session alone, or a day after its last use.

Without network, package managers fail at once: CARGO_NET_OFFLINE, GOPROXY, PIP_NO_INDEX, UV_OFFLINE and
npm_config_offline are set unless the caller sets them. If a command fails because of one of these rules, a warning
names the setting that allows it; for a commit it names lbx squash, by which the developer commits.

Every process ends with the command, or at its time limit (TERM, then KILL after a second), also when lbx is killed.
A long output is shown by its beginning and its end; output_file has all of it, up to bash.output_bytes.

The settings bash.* in the user's own policy allow more; see lbx-policy(5). A file in the workspace cannot.
",
    ),
    (
        "NETWORK",
        "
bash.network in the user's policy is deny, allow, or a list of hosts:

    bash.network = [\"*.example.org\", \"packages.example.net:8443\"]

An entry without a port means the ports 80 and 443, NAME:* for all ports. *.NAME is every name below NAME, and not
NAME itself; * is every name. With a list the command's network is empty but for a proxy of lbx, to which HTTP_PROXY,
HTTPS_PROXY and ALL_PROXY lead. It speaks CONNECT and SOCKS5; a program that knows no proxy reaches nothing. The proxy
resolves the names, and refuses addresses that are not public (private, loopback, metadata) unless the list has the
address, as it refuses requests for IP addresses. denied_hosts lists what was refused and could be listed. NO_PROXY has
localhost, which is the command's own. Variables that the request gives go before these.

network: false in a request takes the network away. Landlock cannot limit the network to a list.
",
    ),
    (
        "WHAT A COMMAND CHANGED",
        "
A foreground command runs on a layer (overlayfs in a user namespace of its own, Linux 5.11 or later): it sees the
workspace, and everything that it changes goes into the layer. When it ends, by itself, by a signal or at the time
limit, its changes become one change of the session and one snapshot: undo, redo, session, diff and audit know it.
stale names files that the session has read and that are different now.

If others changed one of the files meanwhile, lines that do not conflict are merged. Otherwise the layer keeps the
command's version, conflicts lists the file, and the rest is applied. The same happens to .git folders, lbx's own
folders and protected paths: a repository that a command makes stays in the layer. lbx bash --layer NAME shows what a
kept layer changes, --apply applies it over the changes of others, --drop deletes it, and lbx bash --list lists the
kept layers. If others changed the files again since the layer was shown, --apply is stale_file. With --dry-run, --apply
and --drop change nothing.

If lbx is killed, the layer is kept as well, and the next call names it.

On a layer no program can rename a folder that existed before the command (rename(2) fails with EXDEV, which is how
overlayfs works in a user namespace). mv and most others copy it then; a warning names direct for those that fail.

Ignored files are part of the change. An ignored folder is one entry with the number of its files. undo restores
files up to bash.ignored_file_bytes each and bash.ignored_bytes in all; lost counts the others. They do not enter the
snapshot. Files keep the times that the command gave them, so a second make or cargo build builds nothing.
",
    ),
    (
        "TOOLCHAINS",
        "
Programs and packages that are installed work by default. A download needs its hosts in bash.network.

    cargo    builds; cargo install needs --root. To download: index.crates.io, static.crates.io
    go       builds and tests. To download: proxy.golang.org, sum.golang.org
    npm      runs scripts, installs. To download: registry.npmjs.org
    pip      installs into a venv of the workspace. To download: pypi.org, files.pythonhosted.org
    uv       as pip
    make, cc, python, node, java
             work
    git      status, diff, log and blame work; .git is read-only. The developer commits
             with lbx squash. To fetch into another folder: github.com or another host

Maven, Gradle and other programs on Java do not read HTTP_PROXY: give them the address in JAVA_TOOL_OPTIONS.

A command writes caches of toolchains in a view of its own, which lies over the user's and ends with the session: bun,
cargo, ccache, composer, deno, go, gradle, maven, npm, nuget, pip, pnpm, uv and yarn, as far as the home folder has
them, and an empty ~/.cache (other). Programs in them stay read-only. Two commands of a session that run at once have a
view each. bash.caches names those that a command gets; none is for no views. Where no layer can be mounted, as with
bubblewrap, a command with network has empty caches at first, and one without has the user's, read-only.
",
    ),
    (
        "TRANSACTIONS",
        "
With transaction, all changes are applied or none: if others changed one of the files meanwhile, the call fails with
stale_file, with the output in details. dry_run lists the changes and drops them. on_failure discard drops them if the
command fails or runs out of time. A transaction that would make a repository fails with protected_path.
",
    ),
    (
        "DIRECT MODE",
        "
With direct, in a job, and where no layer can be mounted (another backend, a mount inside the workspace, an old
kernel), the command changes the files themselves; direct in the response gives the reason. Use it for servers that
others talk to while they run, and for locks that other programs share.

The files are compared before and after. The old bytes come from the snapshot before the command, or from a copy of
small ignored files; undo names what it cannot restore. A new repository is moved aside (.git.lbx-held) and named.
Direct commands of one workspace take turns; of other programs' changes at the same time, only those of lbx are told
apart. What a running command has changed is recorded before another call changes the same file, another direct command
begins, or a snapshot is made: as a part of the command, with `(so far)` in its subject. The parts are undone together,
unless other changes lie between them or others have changed their files since. In a workspace of more than 500,000 files only the snapshot is made.
",
    ),
    (
        "JOBS",
        "
With background, the command runs on after the call that began it, confined in the same way, until it ends, is
stopped, or its time limit is over (timeout_ms, else bash.job_ms). A job belongs to its session: those of a session that
an MCP connection has alone end with the connection.

    lbx bash -b 'npm run dev'          start a job, j1, and return
    lbx bash --job j1 --offset 1200    its state, and its output from byte 1200 on
    lbx bash --job j1 --stop
    lbx bash --list

The commands and jobs of a session that have the same bash.network share a loopback device while a job runs: a server
at 127.0.0.1 in the job answers them, and nobody else. Under bubblewrap each has its own.

What it changed is recorded when it ends, as one snapshot; bash --job ID then shows exit_code and changed. With
timeout_ms that call waits for the end. The output is bounded by bash.output_bytes; of ended jobs the newest
20 with read output and the newest 80 with unread output are kept. A job
whose supervisor is killed ends at once and is lost; the next scan records what it changed as external.
",
    ),
];

/// Use by a harness after it has compacted a context.
const SESSION: &[Section] = &[(
    "AFTER A CONTEXT WAS COMPACTED",
    "
compact marks everything as unread, since it is no longer in the model's context; brief tells in words what the
session has read and changed. A harness with hooks can call both by itself; lbx init sets that up. For Claude Code,
in .claude/settings.json:

    {\"hooks\": {\"SessionStart\": [{\"matcher\": \"compact\", \"hooks\": [
      {\"type\": \"command\", \"command\": \"lbx session compact >/dev/null; lbx session brief -t\"}]}]}}

Codex takes the same as .codex/hooks.json; Gemini CLI in .gemini/settings.json, with the matcher compress. The
session is the harness's own, as in its shell. With NAME@parent, for the server and the hook, it is NAME and digits that
stand for the process which starts both.
",
)];

/// Undoing a part of a change.
const UNDO: &[Section] = &[(
    "ANY CHANGE OF A SESSION",
    "
With seq, undo takes back that change, whichever it is, or with path one file of it, or with hunk one hunk of that
file. It is a three-way merge: later changes stay. If later changes touch the same lines, undo fails and shows both
sides. It is a change of its own, so undo can revert it. lbx review shows the command next to each change and hunk.
",
)];

/// Changes that go into one commit.
const SQUASH: &[Section] = &[(
    "WHAT IS COMMITTED",
    "
squash commits what the session changed and nothing else: neither what was uncommitted before, nor what the developer
or another session changed in between. It merges that into the branch, makes the branch from HEAD where it does not
exist, and touches neither HEAD, index nor files. The author is user.name and user.email of git; co_author adds a
Co-authored-by line. per_file makes a commit a file; keep_history keeps each change as a commit below one merge commit.

What the branch has of the session already, from an earlier squash, is not committed again, and what was undone since is
taken back there. With checked_out it commits on the branch that is checked out: the index follows for the files that
are committed, what else is staged stays staged, and the files stay as they are. No hook runs.

With git alone, as long as nothing was uncommitted before and only one session worked:

    git checkout -b parser
    git read-tree lbx-snapshots
    git commit -m 'Add the parser'
",
)];

/// Form of a line.
const BATCH: &[Section] = &[(
    "LINES",
    "
Each line of stdin is one call; id may be left out:

    {\"tool\": \"read\", \"request\": {\"path\": \"src/main.rs\"}, \"id\": 1}

Each gets one line of output with the same id, in order, also a line that is not valid. A failed call does not stop
those after it.
",
)];

/// Reference to the other pages.
const CONFIG: &[Section] =
    &[("SETTINGS", "\nlbx-policy(5) describes the files, their order, and every setting.\n")];

/// Requests and answers.
pub const JSON: &[Section] = &[
    (
        "REQUESTS",
        "
Every tool takes one request. It can be given as flags, as JSON after --json (the text itself, - for stdin, or
@FILE), or, for a tool with a required field and where no argument is given, as JSON on stdin. These are the same:

    lbx read src/main.rs --offset 40 --limit 20
    lbx read --json '{\"path\":\"src/main.rs\",\"offset\":40,\"limit\":20}'
    echo '{\"path\":\"src/main.rs\",\"offset\":40,\"limit\":20}' | lbx read

lbx schema TOOL prints the JSON Schemas of a tool's request and response. Spellings that models are trained on
(file_path, old_str, newText, ...) are accepted; lbx schema --aliases lists them. A field that does not exist, a
wrong type or a duplicate is invalid_request.

Over JSON and MCP the fields session, sandbox and require_snapshot join the tool's own, over JSON workspace too.
Every tool that changes files takes why, the reason that its snapshot records; most take dry_run, which shows what would
change and changes nothing.
",
    ),
    (
        "RESPONSES",
        "
Each call writes exactly one JSON object to stdout:

    {\"ok\":true,\"tool\":\"edit\",\"data\":{...},\"warnings\":[\"...\"],\"snapshot\":\"ID\"}
    {\"ok\":false,\"tool\":\"edit\",\"error\":{\"kind\":\"stale_file\",\"message\":\"...\",
     \"path\":\"...\",\"suggested_action\":\"...\",\"details\":{...}}}

ok: false means that nothing was changed, unless error.applied is true: then a step after the change failed. warnings
and snapshot are absent where there are none; dry_run: true is next to data if nothing was changed on purpose. The
fields of data are on the page of each tool. already_applied: true in them means that the result of this very request was
in place before. With --text the payload alone goes to stdout, and everything else to stderr.
",
    ),
    (
        "PATHS AND NUMBERS",
        "
A relative path counts from the current folder where that lies inside the workspace, else from the root, and over MCP
always from the root. offset counts from 0; line numbers and columns count from 1; columns count bytes. mode is octal
text. Paths are ordered by component.
",
    ),
    (
        "BOUNDS",
        "
The payload of a response has at most max_bytes bytes, 24,576 unless the request or the policy says otherwise. A longer
one ends at a whole line, match or entry, says truncated, and names where to continue (next_offset, next_column). What
was left out does not count as read. max_bytes: 0 and limit: 0 lift these bounds; over MCP a message stays under 4 MB.
",
    ),
    (
        "PROOF",
        "
A change to a file needs proof that its caller has seen the bytes that it changes: a read in the same session, or
expected_sha256. A file that was not read is not_read. One that somebody else has changed since is stale_file, with
the diff; with rebase: true, edit still applies if that change is elsewhere in the file. New files need no proof.
Neither do append, prepend and section, nor delete and move, whose old bytes are kept.
",
    ),
    (
        "COMPATIBILITY",
        "
Versions follow Semantic Versioning. Within a major version, and from 1.0 on:

A field of a response, a kind of error, an exit status, a flag and a variable keep their name and meaning. New ones may
appear: a reader ignores what it does not know. The accepted spellings only grow. Texts of messages and of --help, and the
layout of --text, may change: programs read kind, details and the exit status.

Every later version reads the state in .lbx, or refuses it by name and changes nothing. An older version leaves newer
state untouched. A test keeps the state of each release.

Before 1.0 a minor version may break this, and its changelog says so.
",
    ),
];

/// Policy files.
pub const POLICY: &[Section] = &[
    (
        "DESCRIPTION",
        "
The policy has the settings of every call: what needs proof, what is protected, limits, snapshots, and what commands
may do. lbx config shows every value and where it came from; lbx config --example -t prints a policy file with all of
them, explained.
",
    ),
    (
        "SOURCES",
        "
From the weakest to the strongest:

    the default
    lbx/config.toml in $XDG_CONFIG_HOME, else ~/.config   (the user's file)
    .lbx/config.toml in the workspace                      (may be committed)
    LBX_GATE, LBX_LIMITS_READ, LBX_SNAPSHOT_BRANCH, ...    (upper case, _ for a dot)
    --set KEY=VALUE

A workspace's file may come with a clone. It sets gate, patch_gate, match and limits freely, within bounds;
everything else it can only make stricter. Where the user's value is stricter, that stays.

Variables and flags are in the agent's hands: they make settings only stricter, except match, write.in_place, limits and
the bounds of bash. loosen = [\"gate\", \"bash.network\"] in the user's file lets them make these looser. A variable that may not
is ignored with a warning, a flag is an error. What the user's file says of the gate and of guard no workspace loosens.

Three acts are the user's to allow in the same list: \"workspace\" (--workspace, LBX_WORKSPACE and sandbox create name
another workspace than the one that the current folder lies in, once that one has .lbx; fork --at makes a copy
elsewhere than next to the workspace), \"content\" (@FILE names a file outside the workspace) and \"exec\" (sandbox create
takes --exec). trash purge keeps what is younger than gc.keep_days in the user's file.

The lists of protect of all sources are combined. That of an outer workspace holds in a workspace inside it too, if this
account, root or the owner of the inner root owns its file.

A protected name protects the file itself: if it is a symlink, its target and every link on the way are protected too, as
are the hard links of a protected file. lbx finds such links at names without a wildcard, in the folder in which the
wildcards of a glob begin, and among the symlinks that git tracks. It does not find an untracked symlink that only a
wildcard matches deeper down, nor one outside the workspace. A link to the root protects only itself.

No tool writes a policy file, and no request has a field that loosens the policy. A fault in a file (an unknown key, a
value out of range, something else in its place) is invalid_request with file, line and column, from every tool.
",
    ),
    (
        "EXAMPLE",
        "
Nothing is protected by default but .git and .lbx. Where an agent must not leave what other programs run at their next
start, start with this:

    protect = [
      \".mcp.json\", \".claude/\", \".codex/\", \".cursor/\", \".gemini/\", \".vscode/\",
      \".idea/\", \".envrc\", \".gitmodules\", \".gitconfig\", \".bashrc\", \".profile\",
      \".bash_profile\", \".zshrc\", \".zprofile\", \".ripgreprc\",
    ]
",
    ),
];

/// Sections of `lbx-dialects` apart from the families' tools.
pub const DIALECTS: &[Section] = &[
    (
        "DESCRIPTION",
        "
Each model family was trained on file tools with certain names, parameters and result texts. A dialect serves these tools
over lbx's own engine: the same gate, snapshots and undo. A harness can replace its file tools with lbx, and the model sees
what it knows.

lbx mcp --dialect NAME serves a family's tools over MCP. On the command line, --dialect NAME or LBX_DIALECT chooses the
family. A tool name that only one family has needs neither:

    lbx mcp --dialect claude
    lbx --dialect gemini read_file --json '{\"file_path\": \"src/main.rs\"}'
    lbx Read --json '{\"file_path\": \"src/main.rs\"}'
    lbx --dialect codex schema

A link to lbx named after such a tool works as well. lbx --dialect NAME schema shows the JSON Schema of each tool.

Where a family's own tool would lose data (replace the first of several matches, rewrite line endings, overwrite the target
of a move), lbx fails with an error in that family's form. The differences of each family are listed below. Parameters
that have no meaning here are accepted and ignored.
",
    ),
    (
        "A FOLDER FOR THE MEMORY",
        "
anthropic-memory keeps /memories in the workspace. --workspace DIR puts it into any folder that exists:

    lbx mcp --dialect anthropic-memory --workspace ~/memories
",
    ),
];

/// Clients that `init` sets up, and the revisions that the server speaks.
const MCP: &[Section] = &[
    (
        "CLIENTS",
        "
lbx init --client NAME puts the server into the file of this table. A number is the release that offered a model the tools
when it was tried. The other forms follow the client's own pages and sources, Antigravity's the reports of its users; nobody
has run them.

    NAME         FILE                     TRIED WITH
    claude-code  .mcp.json                2.1.197
    codex        .codex/config.toml       0.169.0
    gemini       .gemini/settings.json
    opencode     opencode.json            1.18.33; the plugin needs 1.18.29 or 2
    cursor       .cursor/mcp.json
    vscode       .vscode/mcp.json
    zed          .zed/settings.json
    goose        shown, not written
    copilot-cli  .github/mcp.json         1.0.102
    qwen-code    .qwen/settings.json      0.24.4
    pi           .pi/mcp.json             1.3.0; it needs 0.99
    antigravity  .agents/mcp_config.json
    kiro         .kiro/settings/mcp.json  agents as of IDE 1 and CLI 3
    cline        shown, not written       3.0.65

--exclusive switches the client's own file and shell tools off: by a setting for claude-code, gemini, opencode, qwen-code
and pi; by an agent named lbx, which a person chooses, for vscode, copilot-cli and kiro. Kiro's has the tools of every MCP
server. For zed, goose and cline it shows a setting of the person's own file. codex loses its shell and keeps
apply_patch. For cursor and antigravity no such setting is known.

Codex, Copilot CLI and pi read these files in a folder that a person trusts, and Qwen Code starts the server after qwen mcp
approve lbx; init names the step. Copilot CLI takes an lbx of .mcp.json before its own, so that it shares the entry of
Claude Code where both are set up. Cline runs one process for all folders, which starts its servers in the first one: the
entry names a folder and serves that one alone.

lbx doctor starts the server of each client that is set up in the workspace again, as the client will. It starts lbx mcp
alone, and no other program that such a file names.
",
    ),
    (
        "FORKS",
        "
With --forks the server has the tools fork and merge too, whatever --tools says, and a call of any tool of lbx may name a
fork of the served workspace as its sandbox: a model that leads others creates a fork for each, looks at what they did
(fork with diff, merge with check) and merges it. A fork that it makes is a layer, never a copy in another folder.
lbx init --client NAME --forks sets that up; for Claude Code it makes forks of the client's worktrees instead, see
lbx-hook(1).
",
    ),
    (
        "PLUGIN",
        "
lbx init --plugin DIR writes a folder that Claude Code and Codex install: a manifest with the server and the hook of
--client, a list of plugins, and the skill lbx, which has the text of lbx help agents. Nothing else in the workspace
changes, so that a plugin serves every folder in which the client is started; lbx has to be on PATH there.

    claude plugin marketplace add DIR      codex plugin marketplace add DIR
    claude plugin install lbx@lbx          codex plugin add lbx@lbx

claude --plugin-dir DIR tries it for one session. Claude Code names the tools mcp__plugin_lbx_lbx__NAME, Codex
mcp__lbx__NAME. Codex calls the hook once a person trusts it. It was tried with 2.1.197 and 0.169.0.
",
    ),
    (
        "CONFIRMATION",
        "
With --confirm no call waits for an earlier change, since a person may take long to decide: a read that is sent before the
answer shows the old bytes.
",
    ),
    (
        "SCHEMAS",
        "
The schemas of tools/list keep to the rules that OpenAI (for strict calling), Anthropic and Gemini publish: one type a field,
no default, and no object whose keys are free. Fields beyond those listed are taken too. An optional field that a client
fills with an empty text or list, or with 0 where a number counts from 1, is not given; content and the like may be empty.
",
    ),
    (
        "REVISIONS OF THE PROTOCOL",
        "
The server speaks every revision from 2024-11-05 to 2025-11-25, and the stateless 2026-07-28: server/discover, metadata in
each request, resultType, ttlMs and cacheScope. With --confirm a call of that revision answers input_required with the
question, and the client repeats the call with the person's answer.

Not supported in 2026-07-28: the client's roots (name the workspace with --workspace), log messages by
io.modelcontextprotocol/logLevel, and subscriptions/listen. A process has one session of its own unless --session or the
field session names one.
",
    ),
];
