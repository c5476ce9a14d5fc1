//! `man/` and `completions/` say what the command line takes, because they are written from it.
//!
//! `BLESS=1 cargo test --test generated` writes them anew.
#![expect(clippy::unwrap_used, reason = "a test may fail, and its name says what it is about")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use lbx::cli::commands::tree;
use lbx::error::ErrorKind;

/// What there should be, by path from the package's folder.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Environment variables, as a page shows them.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LBX_WORKSPACE", "The workspace root, as --workspace."),
    (
        "LBX_SESSION",
        "The session, as --session. Where it is unset, CLAUDE_CODE_SESSION_ID and CODEX_THREAD_ID are looked at.",
    ),
    ("LBX_SANDBOX", "A named workspace, as --sandbox."),
    ("LBX_OUTPUT", "With the value text, as --text."),
    (
        "LBX_STATE_ID",
        "The id of the state, 32 hexadecimal digits: where several machines or containers share a workspace and its history.",
    ),
];

/// Complaints about what `clap_mangen` writes, which nobody sees in the page, and about the date that
/// a page in step with the command line does not have.
const WORDS_OF_THE_GENERATOR: [&str; 2] = ["skipping paragraph macro", "missing date"];

/// Files that lbx keeps, as a page shows them.
const FILES: &[(&str, &str)] = &[
    (".lbx/", "What lbx keeps at the workspace root; git ignores it."),
    (
        ".lbx/ID/",
        "State of one account. It holds the sessions, the journal, the audit log, backups of every replaced file, and the trash.",
    ),
    (".lbx/config.toml", "Policy of the workspace, which may be committed."),
    (
        "$XDG_STATE_HOME/lbx/id",
        "The account's id, which names its state in every workspace; ~/.local/state/lbx/id by default. lbx config shows which one is used.",
    ),
    (
        "refs/heads/lbx-snapshots",
        "The branch with one commit for every change; git log lbx-snapshots shows it. In a linked worktree it is lbx-snapshots-NAME.",
    ),
];

/// Everything that is generated.
fn generated() -> Files {
    let mut files = Files::new();
    let mut tree = tree();
    tree.build();
    files.insert(PathBuf::from("man/lbx.1"), page(&tree, "lbx"));
    for tool in tree.get_subcommands() {
        let name = format!("lbx-{}", tool.get_name());
        files.insert(PathBuf::from(format!("man/{name}.1")), page(tool, &name));
    }
    for (shell, name) in [(Shell::Bash, "lbx.bash"), (Shell::Zsh, "_lbx"), (Shell::Fish, "lbx.fish")] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut lbx::cli::commands::tree(), "lbx", &mut script);
        files.insert(Path::new("completions").join(name), without_trailing_blanks(&script));
    }
    files
}

/// One manual page.
fn page(command: &Command, name: &str) -> Vec<u8> {
    let called = name.replace('-', " ");
    // The names live as long as the test.
    let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let command = command.clone().name(leaked).bin_name(called).version(env!("CARGO_PKG_VERSION"));
    let is_tool = name != "lbx";
    let man = Man::new(command);
    // Without a date: a page that is in step with the command line has none of its own.
    let title =
        format!(".TH {} 1 \"\" \"lbx {}\" \"lbx manual\"\n", name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    let mut page = title.into_bytes();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    if !is_tool {
        man.render_subcommands_section(&mut page).unwrap();
    }
    page.extend_from_slice(common_sections(is_tool).as_bytes());
    without_trailing_blanks(&page)
}

/// What every page ends with: exit status, environment, files.
fn common_sections(is_tool: bool) -> String {
    let mut text = String::from(".SH EXIT STATUS\n");
    let mut entry = |tag: &str, what: &str| {
        let _ = write!(text, ".TP\n\\fB{}\\fR\n{}\n", escaped(tag), escaped(what));
    };
    entry("0", "The answer has ok: true.");
    for (status, kinds) in kinds_by_status() {
        let named: Vec<String> =
            kinds.iter().map(|kind| format!("{kind}: {}", kind.suggested_action())).collect();
        entry(&status.to_string(), &named.join("\n.br\n"));
    }
    for (title, entries) in [("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)] {
        let _ = writeln!(text, ".SH {title}");
        for (name, what) in entries {
            let _ = write!(text, ".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(what));
        }
    }
    text.push_str(".SH SEE ALSO\n");
    let see = if is_tool { "\\fBlbx\\fR(1), \\fBgit\\fR(1)" } else { "\\fBgit\\fR(1), \\fBrg\\fR(1)" };
    text.push_str(see);
    text.push('\n');
    text
}

/// The kinds of error by their exit status.
fn kinds_by_status() -> BTreeMap<u8, Vec<ErrorKind>> {
    let mut kinds: BTreeMap<u8, Vec<ErrorKind>> = BTreeMap::new();
    for kind in ErrorKind::ALL {
        kinds.entry(kind.exit_code()).or_default().push(kind);
    }
    kinds
}

/// A text for roff: no character of it is a command.
fn escaped(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    // A line that begins with a dot is a command, save for the line break put there on purpose.
    let lines = escaped.split('\n').map(|line| {
        if line.starts_with('.') && line != ".br" { format!("\\&{line}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The lines without blanks at their ends, so that git and its hooks have nothing to say.
fn without_trailing_blanks(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end()).into_bytes()
}

/// The files that are there.
fn present(package: &Path) -> Files {
    let mut files = Files::new();
    for folder in ["man", "completions"] {
        for entry in std::fs::read_dir(package.join(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            files.insert(path.strip_prefix(package).unwrap().to_owned(), std::fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn manual_pages_and_completions_are_in_step_with_the_command_line() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (wanted, found) = (generated(), present(package));
    let stale: Vec<&PathBuf> =
        wanted.keys().chain(found.keys()).filter(|path| wanted.get(*path) != found.get(*path)).collect();
    if stale.is_empty() {
        return;
    }
    assert!(
        std::env::var_os("BLESS").is_some(),
        "stale: {stale:?}; `BLESS=1 cargo test --test generated` writes them anew"
    );
    for path in found.keys().filter(|path| !wanted.contains_key(*path)) {
        std::fs::remove_file(package.join(path)).unwrap();
    }
    for (path, text) in &wanted {
        let path = package.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn every_manual_page_tells_every_exit_status() {
    for (path, page) in generated() {
        if path.starts_with("man") {
            let page = String::from_utf8(page).unwrap();
            for kind in ErrorKind::ALL {
                assert!(page.contains(kind.name()), "{}: {kind}", path.display());
            }
            for section in
                ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES"]
            {
                assert!(
                    page.contains(&format!(".SH {section}\n"))
                        || page.contains(&format!(".SH \"{section}\"\n")),
                    "{}: {section}",
                    path.display()
                );
            }
        }
    }
}

/// What is generated, as files in a folder that goes with the answer.
fn written() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (path, text) in generated() {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        paths.push(path);
    }
    (folder, paths)
}

#[test]
fn manual_pages_are_clean_to_a_linter() {
    let (_folder, paths) = written();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|kind| kind == "1")) {
        // Continuous integration installs mandoc; elsewhere it may be missing.
        let Ok(output) = Process::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(path).output()
        else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaints: Vec<&str> = said
            .lines()
            .filter(|line| !WORDS_OF_THE_GENERATOR.iter().any(|words| line.contains(words)))
            .collect();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}

#[test]
fn completions_are_scripts_that_their_shells_take() {
    let (folder, _paths) = written();
    for (shell, script) in [("bash", "lbx.bash"), ("zsh", "_lbx"), ("fish", "lbx.fish")] {
        let script = folder.path().join("completions").join(script);
        // Only a shell that is there can be asked.
        if let Ok(checked) = Process::new(shell).arg("-n").arg(&script).output() {
            assert!(checked.status.success(), "{shell}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}

/// All Rust sources below a folder, as one text.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(package.join("ARCHITECTURE.md")).unwrap();
    let mut text = String::new();
    sources(&package.join("src"), &mut text);
    sources(&package.join("tests"), &mut text);
    let tests_in = |part: &str| -> Vec<String> {
        let is_name = |name: &&str| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let names = part.split("*`").skip(1).filter_map(|rest| rest.split_once("`*").map(|(name, _)| name));
        names.filter(is_name).map(str::to_owned).collect()
    };
    for test in tests_in(&page) {
        assert!(text.contains(&format!("fn {test}()")), "there is no test {test}");
    }
    // Of the lines that a list item goes on in, each begins with two blanks.
    let whole = page.replace("\n  ", " ");
    // An invariant has a letter and a number: **W1.**
    let is_invariant = |line: &&str| {
        line.starts_with("- **") && line.chars().nth(5).is_some_and(|character| character.is_ascii_digit())
    };
    let invariants: Vec<&str> = whole.lines().filter(is_invariant).collect();
    assert!(invariants.len() > 20, "{} invariants", invariants.len());
    for invariant in invariants {
        assert!(!tests_in(invariant).is_empty(), "{invariant}");
    }
    // With the threat model; what grows beyond that belongs to the code's own documentation.
    assert!(page.lines().count() < 270);
}

#[test]
fn the_readme_lists_every_tool() {
    let readme = include_str!("../README.md");
    let tools = tree();
    for tool in tools.get_subcommands() {
        assert!(readme.contains(&format!("`{}`", tool.get_name())), "{}", tool.get_name());
    }
}
