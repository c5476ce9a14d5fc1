//! Many agents at once in one workspace: each owns what it wrote, and nothing is lost.

use std::fs;
use std::thread;

use crate::common::Workspace;
use crate::player::Player;

/// Number of agents.
const AGENTS: usize = 16;
/// Files that each of them writes alone, and tries to write in common.
const FILES: usize = 3;

#[test]
fn sixteen_agents_at_once_own_exactly_their_own_changes() {
    let ws = Workspace::with(&[("shared.txt", "first\n")]);
    thread::scope(|scope| {
        for number in 0..AGENTS {
            let mut agent = Player::new(&ws, &format!("agent-{number}"));
            scope.spawn(move || {
                agent.prompt("go");
                for file in 0..FILES {
                    agent
                        .write(&format!("own/{number}-{file}.txt"), &format!("by {number}, {file}\n"))
                        .unwrap();
                    // Another agent may be in the file, or have changed it since.
                    for round in 0..20 {
                        agent.read("shared.txt");
                        if agent.write("shared.txt", &format!("by {number}, {file}, {round}\n")).is_ok() {
                            break;
                        }
                    }
                    if number % 4 == 0 {
                        agent.bash(&format!("echo by {number}, shell > own/{number}-shell-{file}.txt"));
                    }
                }
                agent.stop();
            });
        }
    });
    let log = ws.git(&["log", "--format=@%B", "-p", "--no-renames", "lbx-snapshots"]);
    let mut owner = String::new();
    for line in log.lines() {
        if let Some(session) = line.strip_prefix("Lbx-Session: ") {
            session.trim_start_matches("agent-").clone_into(&mut owner);
        }
        if let Some(tool) = line.strip_prefix("Lbx-Tool: ")
            && ["external", "baseline"].contains(&tool)
        {
            owner.clear();
        }
        if let Some(rest) = line.strip_prefix("+by ") {
            assert!(owner.is_empty() || rest.starts_with(&format!("{owner},")), "{owner}: {line}\n{log}");
        }
    }
    // Each own file was recorded as its writer's, and an undo takes back that writer's alone.
    let kept = |number: usize, file: usize| ws.path(&format!("own/{number}-{file}.txt")).exists();
    ws.lbx(&["undo", "--session", "agent-5", "--steps", "1000", "--path", "own"]).ok();
    for number in 0..AGENTS {
        for file in 0..FILES {
            assert_eq!(kept(number, file), number != 5, "{number} {file}");
        }
    }
    assert!(fs::read_to_string(ws.path("shared.txt")).unwrap().starts_with("by "));
}
