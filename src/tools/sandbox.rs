//! `sandbox`: names for workspaces.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::reject_if;
use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::policy::settings::Permission;
use crate::engine::store::container;
use crate::engine::store::sandboxes::{self, Container, NamedWorkspace as Known};
use crate::engine::workspace::Workspace;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;

/// Give a workspace a name, which every tool takes as --sandbox
///
/// A sandbox is a folder of this machine, or the files of a running container: then all tools work in the container,
/// absolute paths are the container's, and bash runs there. remove forgets the name and deletes no file.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Action
    #[arg(value_name = "ACTION", value_enum, default_value_t)]
    #[serde(default)]
    pub action: Action,
    /// Name of the sandbox; My App! becomes my-app
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Workspace root; in a container /src by default
    #[arg(long, value_name = "DIR")]
    pub root: Option<String>,
    /// Running container with its engine, such as podman:build
    #[arg(long, value_name = "ENGINE:NAME")]
    pub container: Option<String>,
    /// Command that runs another elsewhere, such as 'kubectl exec -i pod --' or 'ssh host'; only if the user's policy allows it
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub exec: Option<String>,
}

/// Action on names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Show all names
    #[default]
    List,
    /// Give a workspace a name
    Create,
    /// Forget a name
    Remove,
}

/// All sandboxes, or the one that was created or removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Sandboxes, by name
    pub sandboxes: Vec<WorkspaceRow>,
}

/// Named workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkspaceRow {
    /// Name
    pub name: String,
    /// Root
    pub root: String,
    /// Container with its engine
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Command that connects to it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<String>,
    /// True if it is a fork of the workspace at this root
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
}

/// `sandbox` tool.
pub struct Sandbox;

impl Tool for Sandbox {
    const NAME: &'static str = "sandbox";
    const EFFECT: Effect = Effect::Reads;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    const NEEDS_POLICY: bool = false;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        if request.action == Action::List {
            let all = sandboxes::list()?;
            return Ok(Response { sandboxes: all.into_iter().map(workspace_row).collect() });
        }
        let name = request.name.as_deref().ok_or_else(|| {
            Error::invalid("field `name` is missing: name the sandbox").detail("field", "name")
        })?;
        let name = sandboxes::slug(name)?;
        let sandbox = match request.action {
            Action::Create => {
                let sandbox = wanted(engine, &request)?;
                sandboxes::create(&name, &sandbox)?;
                sandbox
            }
            Action::Remove | Action::List => {
                must_be_no_fork(&name)?;
                sandboxes::remove(&name)?
            }
        };
        Ok(Response { sandboxes: vec![workspace_row((name, sandbox))] })
    }

    fn text(response: &Response, text: &mut Text) {
        for sandbox in &response.sandboxes {
            let place = sandbox.container.as_ref().or(sandbox.exec.as_ref());
            let fork = sandbox.fork.then(|| "fork".to_owned());
            let place = place
                .or(fork.as_ref())
                .map_or_else(String::new, |place| format!("\t{}", escaped::name(place)));
            text.entry(&format!("{}\t{}{place}", sandbox.name, escaped::name(&sandbox.root)));
        }
    }
}

/// Returns the new sandbox of a request.
fn wanted(engine: &Engine, request: &Request) -> Result<Known, Error> {
    let container = match (&request.container, &request.exec) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("give one of `container` and `exec`").detail("field", "exec"));
        }
        (Some(container), None) => Some(container::of_engine(container)?),
        (None, Some(exec)) => {
            let message = "`exec` runs any program, unconfined";
            engine.policy().must_permit(Permission::Exec, ErrorKind::CommandDenied, message.to_owned())?;
            Some(container::of_exec(exec)?)
        }
        (None, None) => None,
    };
    match container {
        Some(container) => container_workspace(&container, request.root.as_deref()),
        None => local_workspace(engine, request.root.as_deref()),
    }
}

/// Returns a folder of this machine as a sandbox.
fn local_workspace(engine: &Engine, root: Option<&str>) -> Result<Known, Error> {
    let root = root.ok_or_else(|| {
        Error::invalid("field `root` is missing: give the folder that the sandbox is for")
            .detail("field", "root")
    })?;
    let base = engine.workspace.root().join(engine.workspace.base().as_path());
    let workspace = Workspace::open(&base.join(root))?;
    if workspace.is_another_than(&engine.workspace) {
        engine.policy().must_permit_workspace(&workspace)?;
    }
    let root = workspace
        .root()
        .to_str()
        .ok_or_else(|| Error::invalid("root: the path of a sandbox must be UTF-8").detail("field", "root"))?;
    Ok(Known { root: root.to_owned(), container: None })
}

/// Returns the files of a container as a sandbox, and copies lbx into it.
fn container_workspace(container: &Container, root: Option<&str>) -> Result<Known, Error> {
    let root = root.unwrap_or(container::ROOT);
    reject_if(!root.starts_with('/'), "root", "root: in a container the path must be absolute")?;
    let container = container::install(container, root)?;
    Ok(Known { root: root.to_owned(), container: Some(container) })
}

/// Fails for a fork, which would have no name any more.
fn must_be_no_fork(name: &str) -> Result<(), Error> {
    let (_, sandbox) = sandboxes::find(name)?;
    let is_fork = sandbox.container.as_ref().is_some_and(|container| container.fork.is_some());
    if !is_fork || sandbox.is_of_lost_fork() {
        return Ok(());
    }
    let error = Error::invalid(format!("{name} is a fork, which needs its name"));
    Err(error.suggest(format!(
        "`lbx fork drop {name}` deletes the fork with all its changes, and forgets the name."
    )))
}

/// Returns a named workspace for the response.
fn workspace_row((name, sandbox): (String, Known)) -> WorkspaceRow {
    let Known { root, container } = sandbox;
    let engine = container.as_ref().and_then(|container| container.engine.as_ref());
    WorkspaceRow {
        name,
        root,
        fork: container.as_ref().is_some_and(|container| container.fork.is_some()),
        container: engine.map(|(engine, name)| format!("{engine}:{name}")),
        exec: container
            .map(|container| container::join_words(&container.exec))
            .filter(|exec| !exec.is_empty()),
    }
}
