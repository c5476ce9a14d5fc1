//! The clients with hooks: names of their events and tools, and the form of the response that each expects.
//!
//! `lbx-hook(1)` names the documents that this follows.

use serde_json::Value;

use Moment::{
    After, AgentStop, Before, Compaction, Failed, Fresh, Prompt, Stop, WorktreeCreate, WorktreeRemove,
};
use ToolKind::{Command, Edit, Patch, Read, Write};

/// A client with hooks.
#[derive(Debug)]
pub struct HookClient {
    /// Name, as in `init`.
    pub name: &'static str,
    /// Program that is on `PATH`.
    pub program: &'static str,
    /// First version that sends all events, if known.
    pub since: Option<&'static str>,
    /// Its events, each with its meaning.
    pub events: &'static [(&'static str, Moment)],
    /// Its events about worktrees, each with its meaning: `init --forks` sets them up.
    pub worktrees: &'static [(&'static str, Moment)],
    /// Its tools, each with its kind.
    pub tools: &'static [(&'static str, ToolKind)],
    /// Bounds of its tool that shows a file.
    pub reads: ReadBounds,
    /// Form of its responses.
    pub form: ReplyForm,
    /// True if a response can change the arguments of a call.
    pub takes_changed_calls: bool,
}

/// Most that a read shows, if the event does not say how much: a longer file ends early, and of a longer line it shows a
/// part.
#[derive(Debug, Clone, Copy)]
pub struct ReadBounds {
    /// Lines.
    pub lines: u64,
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes of a line.
    pub line_bytes: usize,
}

/// Bounds that most clients share.
const READS: ReadBounds = ReadBounds { lines: 2000, bytes: 50 << 10, line_bytes: 2000 };

/// Meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A prompt was submitted: a turn begins.
    Prompt,
    /// A tool is about to run.
    Before,
    /// A tool has run.
    After,
    /// A tool has failed; it may have changed files before that.
    Failed,
    /// The agent has answered: the turn ends.
    Stop,
    /// A subagent has answered.
    AgentStop,
    /// The context is about to be compacted: nothing in it will have been read. The client takes no text here.
    Compaction,
    /// The context is new, was compacted, or was resumed.
    Fresh,
    /// A worktree is wanted: the response is the path of its folder.
    WorktreeCreate,
    /// A worktree is not wanted any more.
    WorktreeRemove,
}

/// Kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Shows a file.
    Read,
    /// Changes parts of files.
    Edit,
    /// Changes parts of files whose old lines it names, and must find: nobody has to have read them.
    Patch,
    /// Replaces a whole file.
    Write,
    /// Runs a command.
    Command,
    /// Does not touch files, or is a tool of lbx, which keeps its own records.
    Other,
}

/// Form of a client's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyForm {
    /// `hookSpecificOutput` with the event's name, as Claude Code expects it.
    Nested,
    /// Like [`Self::Nested`], for Codex: it changes a call only if the response allows it, too.
    NestedAllowed,
    /// `decision` with a reason, as Gemini CLI expects it.
    Decision,
    /// `permission` with a message for the user and one for the model, as Cursor expects it.
    Permission,
    /// `permissionDecision` with a reason, as Copilot CLI expects it.
    Flat,
    /// `decision` for every call, as Antigravity expects it: to it, no answer means no.
    Explicit,
    /// A field for each verdict, for a plugin that lbx wrote.
    Plain,
}

/// Events of Claude Code, which other clients took over.
const COMMON_EVENTS: &[(&str, Moment)] = &[
    ("UserPromptSubmit", Prompt),
    ("PreToolUse", Before),
    ("PostToolUse", After),
    ("PostToolUseFailure", Failed),
    ("Stop", Stop),
    ("SubagentStop", AgentStop),
    ("SessionStart", Fresh),
    ("PreCompact", Compaction),
];

/// Events of the plugins that lbx wrote.
const PLUGIN_EVENTS: &[(&str, Moment)] = &[
    ("prompt", Prompt),
    ("before", Before),
    ("after", After),
    ("failed", Failed),
    ("stop", Stop),
    ("fresh", Fresh),
];

/// Client with the fields that most clients share.
const COMMON: HookClient = HookClient {
    name: "",
    program: "",
    since: None,
    events: COMMON_EVENTS,
    worktrees: &[],
    tools: &[],
    reads: READS,
    form: ReplyForm::Nested,
    takes_changed_calls: true,
};

/// All clients with hooks.
pub const CLIENTS: &[HookClient] = &[
    HookClient {
        name: "claude-code",
        program: "claude",
        since: Some("2.1.196"),
        worktrees: &[("WorktreeCreate", WorktreeCreate), ("WorktreeRemove", WorktreeRemove)],
        tools: &[
            ("Read", Read),
            ("Edit", Edit),
            ("MultiEdit", Edit),
            ("NotebookEdit", Edit),
            ("Write", Write),
            ("Bash", Command),
        ],
        ..COMMON
    },
    HookClient {
        name: "codex",
        program: "codex",
        since: Some("0.154.0"),
        tools: &[("apply_patch", Patch), ("Bash", Command)],
        form: ReplyForm::NestedAllowed,
        ..COMMON
    },
    HookClient {
        name: "gemini",
        program: "gemini",
        events: &[
            ("BeforeAgent", Prompt),
            ("BeforeTool", Before),
            ("AfterTool", After),
            ("AfterAgent", Stop),
            ("SessionStart", Fresh),
            ("PreCompress", Compaction),
        ],
        tools: &[
            ("read_file", Read),
            ("replace", Edit),
            ("write_file", Write),
            ("run_shell_command", Command),
        ],
        form: ReplyForm::Decision,
        ..COMMON
    },
    HookClient {
        name: "antigravity",
        program: "agy",
        events: &[("PreToolUse", Before), ("PostToolUse", After), ("Stop", Stop), ("SessionStart", Fresh)],
        tools: &[
            ("view_file", Read),
            ("replace_file_content", Edit),
            ("multi_replace_file_content", Edit),
            ("write_to_file", Write),
            ("run_command", Command),
        ],
        reads: ReadBounds { lines: 800, ..READS },
        form: ReplyForm::Explicit,
        ..COMMON
    },
    HookClient {
        name: "cursor",
        program: "cursor-agent",
        events: &[
            ("beforeSubmitPrompt", Prompt),
            ("preToolUse", Before),
            ("postToolUse", After),
            ("postToolUseFailure", Failed),
            ("stop", Stop),
            ("subagentStop", AgentStop),
            ("sessionStart", Fresh),
            ("preCompact", Compaction),
        ],
        // An edit comes as Write, too.
        tools: &[("Read", Read), ("Write", Edit), ("Delete", Edit), ("Shell", Command)],
        form: ReplyForm::Permission,
        ..COMMON
    },
    HookClient {
        name: "copilot-cli",
        program: "copilot",
        events: &[
            ("userPromptSubmitted", Prompt),
            ("preToolUse", Before),
            ("postToolUse", After),
            ("postToolUseFailure", Failed),
            ("agentStop", Stop),
            ("subagentStop", AgentStop),
            ("sessionStart", Fresh),
            ("preCompact", Compaction),
        ],
        tools: &[
            ("view", Read),
            ("edit", Edit),
            ("str_replace_editor", Edit),
            ("apply_patch", Patch),
            ("create", Write),
            ("bash", Command),
        ],
        form: ReplyForm::Flat,
        ..COMMON
    },
    HookClient {
        name: "vscode",
        program: "code",
        tools: &[
            ("readFile", Read),
            ("read_file", Read),
            ("editFiles", Edit),
            ("replace_string_in_file", Edit),
            ("multi_replace_string_in_file", Edit),
            ("insert_edit_into_file", Edit),
            ("edit_notebook_file", Edit),
            ("apply_patch", Patch),
            ("createFile", Write),
            ("create_file", Write),
            ("runInTerminal", Command),
            ("run_in_terminal", Command),
        ],
        ..COMMON
    },
    HookClient {
        name: "qwen-code",
        program: "qwen",
        tools: &[
            ("read_file", Read),
            ("edit", Edit),
            ("notebook_edit", Edit),
            ("write_file", Write),
            ("run_shell_command", Command),
        ],
        takes_changed_calls: false,
        ..COMMON
    },
    HookClient {
        name: "opencode",
        program: "opencode",
        events: PLUGIN_EVENTS,
        tools: &[
            ("read", Read),
            ("edit", Edit),
            ("patch", Patch),
            ("apply_patch", Patch),
            ("write", Write),
            ("bash", Command),
            ("shell", Command),
        ],
        form: ReplyForm::Plain,
        ..COMMON
    },
    HookClient {
        name: "pi",
        program: "pi",
        events: PLUGIN_EVENTS,
        tools: &[("read", Read), ("edit", Edit), ("write", Write), ("bash", Command)],
        form: ReplyForm::Plain,
        ..COMMON
    },
];

impl HookClient {
    /// Returns the client of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// Returns the meaning of an event.
    pub fn moment(&self, event: &str) -> Option<Moment> {
        self.events.iter().chain(self.worktrees).find(|(name, _)| *name == event).map(|(_, moment)| *moment)
    }

    /// Returns the kind of a call: some tools both show and change files, as their `command` says.
    pub fn kind(&self, tool: &str, input: &Value) -> ToolKind {
        let found = self.tools.iter().find(|(name, _)| *name == tool);
        match (found.map_or(ToolKind::Other, |(_, kind)| *kind), input.get("command").and_then(Value::as_str))
        {
            (Edit, Some("view")) => Read,
            (Edit, Some("create")) => Write,
            (kind, _) => kind,
        }
    }

    /// Returns the name of the tool that shows a file.
    pub fn read_tool(&self) -> Option<&'static str> {
        self.tools.iter().find(|(_, kind)| *kind == Read).map(|(name, _)| *name)
    }
}
