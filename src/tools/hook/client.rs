//! The clients with hooks: names of their events and tools, and the form of the response that each expects.

/// A client with hooks.
#[derive(Debug)]
pub struct HookClient {
    /// Name, as in `init`.
    pub name: &'static str,
    /// Its events, each with its meaning.
    pub events: &'static [(&'static str, Moment)],
    /// Its tools, each with its kind; an event that stands for a tool is listed by its own name.
    pub tools: &'static [(&'static str, ToolKind)],
    /// Form of its responses.
    pub form: ReplyForm,
}

/// Meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A prompt was submitted: a turn begins.
    Prompt,
    /// A tool is about to run.
    Before,
    /// A tool has run, with or without success.
    After,
    /// The agent has answered: the turn ends.
    Stop,
    /// A subagent has answered.
    AgentStop,
    /// The context is new, or was compacted: nothing in it was read.
    Fresh,
}

/// Kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Shows a file.
    Read,
    /// Changes a part of files.
    Edit,
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
    /// `hookSpecificOutput`, with the event's name.
    Nested,
}

/// All clients with hooks.
pub const CLIENTS: &[HookClient] = &[HookClient {
    name: "claude-code",
    events: &[
        ("UserPromptSubmit", Moment::Prompt),
        ("PreToolUse", Moment::Before),
        ("PostToolUse", Moment::After),
        ("PostToolUseFailure", Moment::After),
        ("Stop", Moment::Stop),
        ("SubagentStop", Moment::AgentStop),
        ("SessionStart", Moment::Fresh),
        ("PreCompact", Moment::Fresh),
    ],
    tools: &[
        ("Read", ToolKind::Read),
        ("Edit", ToolKind::Edit),
        ("MultiEdit", ToolKind::Edit),
        ("NotebookEdit", ToolKind::Edit),
        ("Write", ToolKind::Write),
        ("Bash", ToolKind::Command),
    ],
    form: ReplyForm::Nested,
}];

impl HookClient {
    /// Returns the client of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// Returns the meaning of an event.
    pub fn moment(&self, event: &str) -> Option<Moment> {
        self.events.iter().find(|(name, _)| *name == event).map(|(_, moment)| *moment)
    }

    /// Returns the kind of a tool, by its name or by the event that stands for it.
    pub fn kind(&self, event: &str, tool: &str) -> ToolKind {
        let named = |word: &str| self.tools.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
        named(tool).or_else(|| named(event)).unwrap_or(ToolKind::Other)
    }
}
