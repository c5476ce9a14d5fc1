//! Asks each installed shell for completions in a real workspace.

use std::path::Path;

use super::super::common::{Workspace, in_parallel, is_installed};
use super::super::examples;

/// Words on the command line, the last one unfinished, and some expected completions.
type Case = (&'static [&'static str], &'static [&'static str]);

/// Cases for every shell.
const CASES: &[Case] = &[
    (&["lbx", ""], &["read", "apply_patch", "mcp", "help"]),
    (&["lbx", "--session", "bob", "und"], &["undo"]),
    (&["lbx", "read", ""], &["notes.txt", "two words.txt"]),
    (&["lbx", "read", "--limit", "20", "--text", "no"], &["notes.txt"]),
    (&["lbx", "read", "notes.txt", "two"], &["two words.txt"]),
    (&["lbx", "edit", "--old"], &["--old-string"]),
    (&["lbx", "read", "--work"], &["--workspace"]),
    (&["lbx", "read", "--sess"], &["--session"]),
    (&["lbx", "schema", "gre"], &["grep"]),
    (&["lbx", "schema", "MultiE"], &["MultiEdit"]),
    (&["lbx", "help", "ag"], &["agents"]),
    (&["lbx", "session", ""], &["status", "brief", "compact"]),
    (&["lbx", "session", "forget", "no"], &["notes.txt"]),
    (&["lbx", "log", "--session", ""], &["default", "bob"]),
    (&["lbx", "log", "--session", "b"], &["bob"]),
    (&["lbx", "trash", "--trash-id", ""], &["TRASH"]),
    (&["lbx", "restore", ""], &["TRASH", "gone.txt"]),
    (&["lbx", "restore", "go"], &["gone.txt"]),
    (&["lbx", "diff", "--from", ""], &["SNAPSHOT"]),
    (&["lbx", "grep", "--type", "rus"], &["rust"]),
    (&["lbx", "grep", "-T", "mar"], &["markdown"]),
    (&["lbx", "glob", "--type", ""], &["file", "dir"]),
    (&["lbx", "grep", "--output-mode", "count"], &["count", "count_matches"]),
    (&["lbx", "read", "--sandbox", ""], &["my-app"]),
    (&["lbx", "mcp", "--dialect", "cod"], &["codex"]),
    (&["lbx", "mcp", "--tools", "c"], &["core"]),
    (&["lbx", "init", "--client", "claude"], &["claude-code"]),
    (&["lbx", "config", "snapshot.b"], &["snapshot.branch"]),
    (&["lbx", "edit", "--set", "limits.re"], &["limits.read="]),
    (&["lbx", "edit", "--set", "gate=w"], &["gate=warn"]),
];

/// Creates a workspace with two sessions, a trash entry and a named workspace. Returns the names of the trash entry and
/// of a snapshot, which replace the words in capitals in the cases.
fn workspace() -> (Workspace, String, String) {
    let ws = Workspace::with(&[("notes.txt", "one\n"), ("two words.txt", "2\n"), ("gone.txt", "bye\n")]);
    ws.lbx(&["append", "notes.txt", "--content", "two\n"]).ok();
    let deleted = ws.lbx(&["delete", "gone.txt", "--session", "bob"]).ok();
    ws.lbx(&["sandbox", "create", "My App!", "--root", "."]).ok();
    let snapshot = ws.git(&["rev-parse", "lbx-snapshots"]);
    for (name, script) in super::all() {
        ws.write(&format!("../completions/{name}"), script);
    }
    (ws, deleted["trash_id"].as_str().unwrap().to_owned(), snapshot)
}

/// Returns the completions of a shell, one per line; `harness` is a script that takes the words.
fn offered(ws: &Workspace, shell: &str, harness: &str, words: &[&str]) -> Vec<String> {
    // Several calls may ask at once, each with files of its own.
    let folder = tempfile::Builder::new().prefix("harness-").tempdir_in(&ws.outside).unwrap();
    let path = folder.path().join("harness");
    std::fs::write(&path, harness).unwrap();
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let output = examples::run(ws, &format!("{shell} {} {}", path.display(), words.join(" ")), &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.is_empty(), "{shell} {words:?}: {said}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Asks a shell all cases; reports that the test is skipped if it is not installed.
fn ask(shell: &str, harness: &str) {
    if !is_installed(shell) {
        return;
    }
    let (ws, trash, snapshot) = workspace();
    // Fish makes folders in a new home, and two that begin at once are in each other's way.
    offered(&ws, shell, harness, &["lbx", ""]);
    let faults = in_parallel(CASES, |(words, wanted)| {
        let mut faults = Vec::new();
        let found = offered(&ws, shell, harness, words);
        for want in *wanted {
            let is_there = match *want {
                "TRASH" => found.contains(&trash),
                "SNAPSHOT" => found.iter().any(|word| word.len() >= 8 && snapshot.starts_with(word.as_str())),
                _ => found.iter().any(|word| word == want),
            };
            if !is_there {
                faults.push(format!("{words:?}: no {want} in {found:?}"));
            }
        }
        // Fish also offers names in another case.
        let begun = words.last().unwrap().to_lowercase();
        assert!(
            found.iter().all(|word| word.to_lowercase().contains(&begun)),
            "{shell} {words:?}: {found:?}"
        );
        faults
    })
    .concat();
    assert!(faults.is_empty(), "{shell}:\n{}", faults.join("\n"));
    // No completion for free text, and where nothing is known.
    for words in [
        &["lbx", "edit", "--old-string", ""][..],
        &["lbx", "log", "--workspace", "/nowhere", "--session", ""],
        &["lbx", "nonsense", ""],
    ] {
        let found = offered(&ws, shell, harness, words);
        assert!(found.is_empty(), "{shell} {words:?}: {found:?}");
    }
}

#[test]
fn bash_completes_paths_tools_and_values() {
    ask(
        "bash",
        "source ../completions/lbx.bash
         COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_WORDBREAKS=' '
         _lbx
         if ((${#COMPREPLY[@]})); then printf '%s\\n' \"${COMPREPLY[@]}\"; fi",
    );
}

#[test]
fn bash_completes_values_after_an_equals_sign() {
    let (ws, ..) = workspace();
    // Split into words as readline does.
    let harness = "source ../completions/lbx.bash
         COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_WORDBREAKS=$' \\t\\n=:'
         _lbx
         printf '%s\\n' \"${COMPREPLY[@]}\"";
    let found = offered(&ws, "bash", harness, &["lbx", "edit", "--set", "gate", "=", "w"]);
    assert_eq!(found, ["warn"]);
    let found = offered(&ws, "bash", harness, &["lbx", "log", "--session", "=", "b"]);
    assert_eq!(found, ["bob"]);
}

#[test]
fn completion_never_executes_names_from_the_trash() {
    let name = "$(touch pwned);touch pwned&.txt";
    let ws = Workspace::with(&[(name, "x\n")]);
    ws.lbx(&["delete", name]).ok();
    for (file, script) in super::all() {
        ws.write(&format!("../completions/{file}"), script);
    }
    let harness = "source ../completions/lbx.bash
         COMP_WORDS=(lbx restore '') COMP_CWORD=2
         _lbx
         eval \"words=(${COMPREPLY[1]})\"
         printf '%s\\n' \"${words[0]}\"";
    assert_eq!(offered(&ws, "bash", harness, &[]), [name]);
    assert!(!Path::new(&ws.path("pwned")).exists());
}

#[test]
fn fish_completes_paths_tools_and_values() {
    ask(
        "fish",
        "source ../completions/lbx.fish
         for line in (complete -C (string join ' ' -- (string escape -- $argv[..-2]) $argv[-1]))
             string replace -r '\\t.*' '' -- $line | string unescape
         end",
    );
}

#[test]
fn zsh_completes_paths_tools_and_values() {
    // A shell on its own terminal is asked: completion works nowhere else.
    ask(
        "zsh",
        r#"zmodload zsh/zpty
        print -r -- '
            PROMPT= RPROMPT=
            fpath=(../completions $fpath)
            autoload -U compinit && compinit -u -D
            bindkey "^I" complete-word
            zstyle ":completion:*" insert-tab false
            null() { print -n "\0" }
            comppostfuncs=(null)
            compadd() {
                if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
                local -a hits
                builtin compadd -A hits "$@"
                local hit prefix=$IPREFIX
                for hit in $hits; do print -r -- "HIT $prefix${(Q)hit}"; done
            }
            null
        ' > ${0:h}/zshrc
        zpty shell zsh -f -i
        zpty -w shell "source ${0:h}/zshrc"
        zpty -r shell said $'*\0*'
        zpty -w -n shell "${(j: :)${(@q)argv[1,-2]}} ${argv[-1]}"$'\t'
        zpty -r shell said $'*\0*'
        print -r -- ${(F)${(M)${(@f)${said//$'\r'/}}:#*HIT *}//*HIT /}
        zpty -d shell"#,
    );
}
