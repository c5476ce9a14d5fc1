//! Every tool of every dialect, called by the official SDKs.

use std::collections::BTreeSet;

use lbx::catalog::TOOLS;
use serde_json::{Value, json};

use crate::common::Workspace;
use crate::driver::{SDKS, Session, call, drive, text};
use crate::installed::Clients;
use crate::native_calls::native_calls;
use crate::steps::{FILES, Step, check, request};
use crate::transcripts::transcripts;

#[test]
fn every_sdk_calls_every_native_tool() {
    let Some(clients) = Clients::found() else { return };
    let served: BTreeSet<&str> = TOOLS.iter().filter(|tool| tool.served).map(|tool| tool.name).collect();
    let calls = native_calls();
    assert_eq!(calls.iter().map(|(tool, _)| *tool).collect::<BTreeSet<_>>(), served);
    for (sdk, version) in SDKS {
        for options in [&[][..], &["--results", "text"]] {
            let ws = Workspace::with(FILES);
            let list = json!({ "do": "list" });
            let steps = std::iter::once(list).chain(calls.iter().map(|(tool, request)| call(tool, request)));
            let answers = drive(&clients, sdk, &[Session::of(&ws, options, steps.collect())]).remove(0);
            let listed = answers[0]["tools"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            assert_eq!(listed.collect::<BTreeSet<_>>(), served, "{sdk:?}");
            assert_eq!(answers[0]["version"].as_str(), version, "{sdk:?}");
            for ((tool, request), answer) in calls.iter().zip(&answers[1..]) {
                assert_eq!(answer["is_error"], false, "{sdk:?} {tool} {request}: {answer}");
                if options.is_empty() {
                    let said: Value = serde_json::from_str(text(answer)).unwrap();
                    assert_eq!(said, answer["structured"], "{sdk:?} {tool}");
                } else {
                    assert!(answer["structured"].is_null(), "{sdk:?} {tool}: {answer}");
                }
            }
        }
    }
}

/// Returns the transcript of a family as a session.
fn session_of(ws: &Workspace, family: &str, steps: &[Step]) -> Session {
    let calls = steps.iter().map(|step| call(step.tool, &request(ws, &step.request)));
    let steps = std::iter::once(json!({ "do": "list" })).chain(calls).collect();
    Session::of(ws, &["--dialect", family], steps)
}

#[test]
fn every_sdk_calls_every_tool_of_every_dialect() {
    let Some(clients) = Clients::found() else { return };
    for (sdk, _) in SDKS {
        let all = transcripts();
        let places: Vec<Workspace> = all.iter().map(|_| Workspace::with(FILES)).collect();
        let sessions: Vec<Session> =
            all.iter().zip(&places).map(|((family, steps), ws)| session_of(ws, family, steps)).collect();
        let answers = drive(&clients, sdk, &sessions);
        for (((_, steps), ws), answers) in all.iter().zip(&places).zip(&answers) {
            for (step, answer) in steps.iter().zip(&answers[1..]) {
                check(ws, step, answer["is_error"] == true, text(answer));
            }
        }
    }
}
