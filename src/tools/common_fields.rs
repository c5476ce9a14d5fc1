//! The fields that JSON requests of every tool have beside the tool's own.

use serde_json::Value;

use super::Effect;

/// To what a field of every tool belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The process: a server fixes it at its start.
    Process,
    /// Each call.
    Call,
    /// Each call that changes something.
    Change,
}

/// A field that JSON requests of every tool have beside the tool's own.
#[derive(Debug)]
pub struct CommonField {
    /// Its name.
    pub name: &'static str,
    /// To what it belongs.
    pub scope: Scope,
    /// Its type in a JSON Schema.
    kind: &'static str,
    /// What it is for.
    description: &'static str,
}

/// The options that requests may give as fields.
pub const COMMON_FIELDS: [CommonField; 4] = [
    CommonField { name: "workspace", scope: Scope::Process, kind: "string", description: "Workspace root" },
    CommonField { name: "sandbox", scope: Scope::Call, kind: "string", description: "Named workspace" },
    CommonField { name: "session", scope: Scope::Call, kind: "string", description: "Another session" },
    CommonField {
        name: "require_snapshot",
        scope: Scope::Change,
        kind: "boolean",
        description: "Fail without a snapshot",
    },
];

impl CommonField {
    /// Whether a call to a server may give it, where the tool has this effect.
    #[must_use]
    pub fn is_of_call(&self, effect: Effect) -> bool {
        match self.scope {
            Scope::Process => false,
            Scope::Call => true,
            Scope::Change => effect != Effect::Reads,
        }
    }

    /// Whether a request on the command line may give it, where the tool has this effect.
    #[must_use]
    pub fn is_of(&self, effect: Effect) -> bool {
        self.scope != Scope::Change || effect != Effect::Reads
    }

    /// Its JSON Schema.
    #[must_use]
    pub fn schema(&self) -> Value {
        serde_json::json!({ "type": self.kind, "description": self.description })
    }
}
