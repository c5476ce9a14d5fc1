//! A workspace for a test of the search tools, and calls of them.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

pub mod queries;
#[path = "../common/skip.rs"]
pub mod skip;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args as _, FromArgMatches as _};
use lbx::control::Control;
use lbx::engine::Engine;
use lbx::engine::workspace::Workspace;
use lbx::error::Error;
use lbx::tools::{Text, Tool, glob::Glob, grep::Grep, ls::Ls};
use serde_json::Value;
#[allow(unused_imports, reason = "not every test may be skipped")]
pub use skip::{is_installed, skipped};

/// A folder that is removed after the test.
pub struct Tree {
    /// Temporary folder.
    folder: tempfile::TempDir,
}

/// Answer of a call.
#[derive(Debug)]
pub struct Answer {
    /// Data of the answer.
    pub data: Value,
    /// Warnings of the answer.
    pub warnings: Vec<String>,
    /// Output under `--text`.
    pub text: String,
    /// Lines on stderr under `--text`.
    pub notes: Vec<String>,
    /// Exit status under `--exit-status`.
    pub status: u8,
}

impl Tree {
    /// Creates an empty repository.
    pub fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(tree.path().join(".git")).unwrap();
        tree
    }

    /// Creates a repository with files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let tree = Self::new();
        files.iter().for_each(|(path, text)| tree.write(path, text.as_bytes()));
        tree
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file and creates missing folders.
    pub fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Makes a symlink.
    pub fn link(&self, target: &str, path: &str) {
        std::os::unix::fs::symlink(target, self.path().join(path)).unwrap();
    }

    /// Calls `grep`.
    pub fn grep(&self, args: &[&str]) -> Answer {
        call::<Grep>(self.path(), args).unwrap()
    }

    /// Calls `glob`.
    pub fn glob(&self, args: &[&str]) -> Answer {
        call::<Glob>(self.path(), args).unwrap()
    }

    /// Calls `ls`.
    pub fn ls(&self, args: &[&str]) -> Answer {
        call::<Ls>(self.path(), args).unwrap()
    }

    /// Calls a tool that must fail.
    pub fn refused<T: Tool>(&self, args: &[&str]) -> Error
    where
        T::Response: std::fmt::Debug,
    {
        call::<T>(self.path(), args).unwrap_err()
    }
}

/// Calls a tool by flags, in the folder `current`.
pub fn call<T: Tool>(current: &Path, args: &[&str]) -> Result<Answer, Error> {
    call_under::<T>(current, args, Control::default())
}

/// Calls a tool by flags under `control`.
pub fn call_under<T: Tool>(current: &Path, args: &[&str], control: Control) -> Result<Answer, Error> {
    let command = T::Request::augment_args(clap::Command::new(T::NAME));
    let args: Vec<&str> = std::iter::once(T::NAME).chain(args.iter().copied()).collect();
    let matches = command.try_get_matches_from(args).unwrap_or_else(|error| panic!("{error}"));
    run::<T>(current, T::Request::from_arg_matches(&matches).unwrap(), control)
}

/// Calls a tool by JSON, in the folder `current`.
pub fn call_json<T: Tool>(current: &Path, request: Value) -> Result<Answer, Error> {
    run::<T>(current, serde_json::from_value(request).unwrap(), Control::default())
}

/// Runs a tool.
fn run<T: Tool>(current: &Path, request: T::Request, control: Control) -> Result<Answer, Error> {
    let workspace = Workspace::discover(None, current).unwrap();
    let mut engine = Engine::new(workspace, "test".parse().unwrap(), control);
    let response = T::run(&mut engine, request)?;
    let mut text = Text::new(false);
    T::text(&response, &mut text);
    let (notes, mut delivery) = engine.finish("search");
    assert_eq!(delivery.save(), None);
    Ok(Answer {
        data: serde_json::to_value(&response).unwrap(),
        warnings: notes.warnings,
        text: String::from_utf8(text.out).unwrap(),
        notes: text.notes,
        status: T::status(&response),
    })
}

/// Returns the texts of one field of a list.
pub fn field(list: &Value, name: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| entry[name].as_str().unwrap().to_owned()).collect()
}

/// Returns the texts of a list.
pub fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| entry.as_str().unwrap().to_owned()).collect()
}

/// Returns the major version of `rg`.
pub fn rg_version() -> u32 {
    let text = String::from_utf8(output(Path::new("/"), "rg", &["--version"])).unwrap();
    let number = text.split([' ', '.']).nth(1).unwrap();
    number.parse().unwrap()
}

/// Returns the output of a program that runs in `current`.
pub fn output(current: &Path, program: &str, args: &[&str]) -> Vec<u8> {
    Command::new(program)
        .args(args)
        .current_dir(current)
        .env_remove("RIPGREP_CONFIG_PATH")
        .output()
        .unwrap()
        .stdout
}

/// Returns the places where `rg` finds matches: path, line, column.
pub fn places_of_rg(current: &Path, args: &[&str]) -> Vec<(String, u64, u64)> {
    let args: Vec<&str> = ["--json", "--crlf", "--sort", "path"].iter().chain(args).copied().collect();
    let mut places = Vec::new();
    for line in output(current, "rg", &args).split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_slice(line).unwrap();
        if event["type"] == "match" {
            let data = &event["data"];
            let column = data["submatches"][0]["start"].as_u64().map_or(1, |start| start + 1);
            places.push((path_of(&data["path"]), data["line_number"].as_u64().unwrap(), column));
        }
    }
    places
}

/// Returns a path from the output of `rg --json`.
fn path_of(path: &Value) -> String {
    let text = path["text"].as_str().map(str::to_owned);
    text.unwrap_or_else(|| "not UTF-8".to_owned()).trim_start_matches("./").to_owned()
}

/// Returns the places where `grep` finds matches.
pub fn places_of(answer: &Answer) -> Vec<(String, u64, u64)> {
    let matches = answer.data["matches"].as_array().unwrap();
    matches
        .iter()
        .map(|entry| {
            let path = entry["path"].as_str().unwrap().to_owned();
            (path, entry["line"].as_u64().unwrap(), entry["column"].as_u64().unwrap())
        })
        .collect()
}

/// Returns lines of bytes as a set of paths.
pub fn lines_of(bytes: &[u8], separator: u8) -> BTreeSet<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    bytes
        .split(|&byte| byte == separator)
        .filter(|line| !line.is_empty())
        .map(|line| PathBuf::from(std::ffi::OsStr::from_bytes(line)))
        .collect()
}

/// Creates a tree with everything that makes searching difficult.
pub fn messy() -> Tree {
    let tree = Tree::new();
    std::fs::remove_dir(tree.path().join(".git")).unwrap();
    if is_installed("git") {
        output(tree.path(), "git", &["init", "-q", "."]);
    } else {
        std::fs::create_dir(tree.path().join(".git")).unwrap();
    }
    for (path, text) in [
        (
            ".gitignore",
            "*.log\n/build/\nnode_modules\n!keep.log\ndeep/**/secret\n/*.tmp\n\\#odd\ntrailing \n",
        ),
        ("a.txt", "foo one\nbar\nFoo two\n\nfoobar foo\n"),
        ("b.log", "foo ignored\n"),
        ("keep.log", "foo kept\n"),
        ("c.tmp", "foo ignored at the top\n"),
        ("#odd", "foo ignored by an escaped name\n"),
        ("sub/c.tmp", "foo shown below\n"),
        ("build/out.rs", "foo ignored folder\n"),
        ("sub/build/out.rs", "fn foo() {}\n"),
        ("node_modules/x/index.js", "foo();\n"),
        ("sub/.gitignore", "!*.log\nlocal\n"),
        ("sub/b.log", "foo again\n"),
        ("sub/local/file", "foo local\n"),
        ("sub/crlf.txt", "foo one\r\nbar\r\nend foo\r\n"),
        ("sub/.hidden", "foo hidden\n"),
        (".config/settings.toml", "foo = 1\n"),
        (".ignore", "from_ignore.txt\n"),
        (".rgignore", "!from_ignore2.txt\nfrom_rgignore.txt\n"),
        ("from_ignore.txt", "foo\n"),
        ("from_rgignore.txt", "foo\n"),
        ("deep/a/b/secret", "foo\n"),
        ("deep/a/b/open.py", "def foo():\n    return 'foo'\n\nclass Foo:\n    pass\n"),
        ("deep.txt", "foo sorts after the folder\n"),
        ("deep-er/x.rs", "// foo\nfn main() {\n    foo(\n        1,\n    );\n}\n"),
        ("unicode/é.md", "# Überschrift foo\nñandú FOO\n"),
        ("unicode/long.txt", &format!("{} foo {}\n", "é".repeat(600), "x".repeat(600))),
        ("empty", ""),
        ("no_newline.txt", "last foo"),
        ("nested/.gitignore", "*.txt\n"),
        ("nested/x.txt", "foo\n"),
        ("nested/y.rs", "let foo = \"foo\";\n"),
        ("inner/.git/config", "foo\n"),
        ("inner/b.log", "foo inside a nested repository\n"),
        ("trailing", "foo\n"),
        ("space name.txt", "foo with a space\n"),
        ("[brackets]/file.rs", "fn foo() {}\n"),
    ] {
        tree.write(path, text.as_bytes());
    }
    tree.write("bom.txt", b"\xef\xbb\xbffoo with a mark\n");
    tree.write("utf16le.txt", b"\xff\xfef\0o\0o\0\n\0b\0a\0r\0 \0f\0o\0o\0\n\0");
    tree.write("utf16be.txt", b"\xfe\xff\0f\0o\0o\0\n");
    tree.write("latin1.txt", b"caf\xe9 foo\n");
    tree.write("early.bin", b"\xe3\x1e\n\0\0foo\n");
    tree.write("binary.bin", b"foo\n\0\x01\x02foo\n");
    let late = ["filler line with foo\n".repeat(4000).into_bytes(), b"\0foo\n".to_vec()].concat();
    tree.write("late.bin", &late);
    let many: String =
        (0..3000).map(|number| format!("line {number} {}\n", ["foo", "bar"][number % 2])).collect();
    tree.write("many.txt", many.as_bytes());
    tree.link("a.txt", "link.txt");
    tree.link("sub", "linked_folder");
    tree.link("nowhere", "dangling");
    tree
}
