//! `apply_patch`: `patch` as Codex models know it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::common::{ChangeOptions, ContentOptions};
use super::patch::{self, FileAction, PatchText, Proof, Response};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::error::Error;
use crate::text::escaped;

/// Apply a patch as Codex models call it
///
/// The same as patch, but a hunk's own old lines, found exactly and in one place, prove that the
/// caller knows them, and the answer is Codex's text. `LBX_OUTPUT=json` asks for JSON.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// The patch; it may come on stdin
    #[arg(value_name = "PATCH")]
    #[schemars(extend("x-aliases" = ["patch", "patch_text", "diff"]))]
    pub input: Option<PatchText>,
    /// The patch, from stdin
    #[arg(long, hide = true, allow_hyphen_values = true)]
    #[serde(skip)]
    pub patch: Option<PatchText>,
    /// Whether to do it, and why.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// The tool.
pub struct ApplyPatch;

impl Tool for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const ALIASES: &'static [&'static str] = &["applypatch"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "patch", unless: &["input"] };
    const BULK_ALONE: bool = true;
    const SERVED: bool = false;
    const TEXT_BY_DEFAULT: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let Some(patch) = request.input.or(request.patch) else {
            return Err(Error::invalid(
                "field `input` is missing: give the patch as the argument or on stdin",
            )
            .detail("field", "input"));
        };
        let request = patch::Request {
            patch,
            path: None,
            strip: None,
            expected_sha256_by_path: None,
            fuzz: 0,
            strict: false,
            reverse: false,
            options: ContentOptions { change: request.options, ..ContentOptions::default() },
        };
        patch::run(engine, Self::NAME, &request, Proof::Context)
    }

    fn text(response: &Response, text: &mut Text) {
        text.entry("Success. Updated the following files:");
        for file in &response.files {
            match file.action {
                FileAction::Create => text.entry(&format!("A {}", escaped::name(&file.path))),
                FileAction::Delete => text.entry(&format!("D {}", escaped::name(&file.path))),
                FileAction::Modify | FileAction::Rename | FileAction::AlreadyApplied => {
                    text.entry(&format!("M {}", escaped::name(&file.path)));
                }
            }
        }
    }
}
