//! `snapshot`: whatever changed in the work tree, as one commit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::snapshot::EXTERNAL;
use crate::error::Error;
use crate::text::counted::counted;

/// Commit whatever changed in the work tree to the snapshot branch
///
/// Looks at every file that git does not ignore. HEAD, the index and the work tree stay as they are.
/// Where nothing has changed since the newest snapshot, there is no new one. What it finds was not
/// changed through lbx and belongs to no session: `external`.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Message of the snapshot; its first line becomes the subject
    #[arg(value_name = "MESSAGE")]
    #[schemars(extend("x-aliases" = ["why", "description", "summary"]))]
    pub message: Option<String>,
}

/// What was committed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The commit; absent where nothing had changed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Files that changed
    pub files: usize,
    /// Lines added
    pub insertions: usize,
    /// Lines removed
    pub deletions: usize,
    /// What could not enter, and why
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A path that did not enter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The path from the root
    pub path: String,
    /// Why
    pub reason: String,
}

/// The tool.
pub struct Snapshot;

impl Tool for Snapshot {
    const NAME: &'static str = "snapshot";
    const EFFECT: Effect = Effect::Adds;
    const STDIN: Stdin = Stdin::Ignored;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let message = request.message.unwrap_or_default();
        let (first, rest) = message.trim().split_once('\n').unwrap_or((message.trim(), ""));
        // What a scan finds was not changed through lbx, whoever has it recorded.
        let subject = (!first.is_empty()).then(|| format!("{EXTERNAL}: {first}"));
        let why = Some(rest.trim()).filter(|rest| !rest.is_empty());
        let locked = engine.lock()?;
        let recorded = record::scan(engine, subject, why, EXTERNAL)?;
        drop(locked);
        recorded.warnings.into_iter().for_each(|warning| engine.warn(warning));
        let stat = recorded.id.as_deref().map(|id| stat_of(engine, id)).transpose()?.unwrap_or_default();
        if let Some(id) = &recorded.id {
            engine.set_snapshot(id.clone());
        }
        let left_out = |left: crate::engine::snapshot::LeftOut| LeftOut {
            path: left.path,
            reason: left.reason.to_string(),
        };
        Ok(Response {
            id: recorded.id,
            files: stat.files,
            insertions: stat.insertions,
            deletions: stat.deletions,
            left_out: recorded.left_out.into_iter().map(left_out).collect(),
        })
    }

    fn text(response: &Response, text: &mut Text) {
        let line = match &response.id {
            Some(id) => format!(
                "snapshot {id}: {}, +{} -{}",
                counted(response.files, "file"),
                response.insertions,
                counted(response.deletions, "line")
            ),
            None => "snapshot: nothing has changed".to_owned(),
        };
        text.entry(&line);
        for left in &response.left_out {
            text.note(format!("left out: {} ({})", left.path, left.reason));
        }
    }
}

/// How much a snapshot changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// Files.
    pub files: usize,
    /// Lines added, as far as they were counted.
    pub insertions: usize,
    /// Lines removed; likewise.
    pub deletions: usize,
}

impl Stat {
    /// How much `snapshot` changed.
    #[must_use]
    pub fn of(snapshot: &crate::engine::snapshot::Snapshot) -> Self {
        let files = &snapshot.files;
        Self {
            files: files.len(),
            insertions: files.iter().filter_map(|file| file.insertions).sum(),
            deletions: files.iter().filter_map(|file| file.deletions).sum(),
        }
    }
}

/// How much the snapshot `id` changed.
fn stat_of(engine: &Engine, id: &str) -> Result<Stat, Error> {
    let store = record::find(engine)?;
    let found = store.map(|store| store.one(id)).transpose();
    let found = found.map_err(|error| record::unreadable(&error))?.flatten();
    Ok(found.as_ref().map(Stat::of).unwrap_or_default())
}
