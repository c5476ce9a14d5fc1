//! One call: from a tool and its request to an answer with what is left beside it.

use serde_json::Value;

use super::called::Called;
use super::options::Options;
use super::remote::Remote;
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::workspace::Workspace;
use crate::error::Error;
use crate::panics::without_panic;
use crate::tools::{Answered, Effect, ToolEntry};

/// A call that is about to be made.
pub struct Call {
    /// The tool.
    tool: &'static ToolEntry,
    /// The engine for it.
    engine: Engine,
    /// The request, where it came as JSON.
    request: Value,
}

impl Call {
    /// Makes the call of a JSON request, in the container that the options name where they name one.
    #[must_use]
    pub fn make(tool: &'static ToolEntry, mut request: Value, options: &Options) -> Called {
        let called = options.with_fields_of(&mut request).and_then(|options| {
            Ok(match Remote::of(&options)? {
                Some(remote) => remote.call(tool, &request, &options, &Control::default()),
                None => Self { request, ..Self::new(tool, &options)? }.run(),
            })
        });
        called.unwrap_or_else(Called::refused)
    }

    /// A call by the options' session in their workspace.
    ///
    /// # Errors
    /// Where there is no such workspace, session or sandbox.
    pub fn new(tool: &'static ToolEntry, options: &Options) -> Result<Self, Error> {
        let workspace = if tool.needs_policy { options.open_workspace() } else { options.open_any_folder() };
        Self::within(workspace?, tool, options)
    }

    /// A call by the options' session in a workspace that is known already.
    ///
    /// # Errors
    /// Where there is no such session, or the policy is not as it should be.
    pub fn within(workspace: Workspace, tool: &'static ToolEntry, options: &Options) -> Result<Self, Error> {
        let loaded = Policy::load(&workspace, &options.policy);
        let session = options.session_id()?;
        let (policy, fault) = match loaded {
            Ok(policy) => (policy, None),
            Err(error) if tool.needs_policy => return Err(error),
            Err(error) => (Policy::default(), Some(error)),
        };
        let mut engine = Engine::under(policy, workspace, session, Control::default());
        if let Some(fault) = fault {
            engine.set_policy_fault(fault);
        }
        for ignored in engine.policy().ignored_variables().to_vec() {
            engine.warn(ignored);
        }
        engine.require_snapshot |= options.require_snapshot;
        engine.set_for_a_person(options.person);
        engine.harness.clone_from(&options.harness);
        engine.counts_lines_now = options.counts_lines_now;
        if options.is_session_named {
            engine.set_session_named();
        }
        Ok(Self { tool, engine, request: Value::Null })
    }

    /// The same call, listening to `control`.
    #[must_use]
    pub fn controlled_by(mut self, control: Control) -> Self {
        self.engine.control = control;
        self
    }

    /// Makes the call with its JSON request.
    #[must_use]
    pub fn run(mut self) -> Called {
        let (tool, request) = (self.tool, std::mem::take(&mut self.request));
        self.run_with(|engine| (tool.run_json)(engine, request))
    }

    /// Makes the call.
    #[must_use]
    pub fn run_with(mut self, run: impl FnOnce(&mut Engine) -> Answered) -> Called {
        let answered = without_panic(|| run(&mut self.engine));
        if self.tool.effect != Effect::Reads || self.engine.has_changed() {
            self.engine.audit(self.tool.name, answered.as_ref().err());
        }
        let (outcome, tally) = self.engine.finish(self.tool.name);
        Called { answered, outcome, tally }
    }
}
