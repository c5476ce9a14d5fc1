//! `install.sh`, run with an existing binary: it installs the right files, and removes exactly those.
#![expect(clippy::unwrap_used, reason = "a test may fail, and its name says what it is about")]

#[path = "common/skip.rs"]
mod skip;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lbx::catalog::TOOLS;
use tempfile::TempDir;

use skip::is_installed;

/// Path of the binary under test.
const LBX: &str = env!("CARGO_BIN_EXE_lbx");
/// Folder of this package.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// A folder to install into, with a space in its name.
struct Place {
    /// Temporary folder, removed when the test ends.
    folder: TempDir,
    /// Prefix, which does not exist yet.
    prefix: PathBuf,
}

impl Place {
    /// Creates a place where nothing is installed.
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("lbx install ").tempdir().unwrap();
        let prefix = folder.path().join("a prefix");
        Self { folder, prefix }
    }

    /// Runs a script with arguments in the parent folder of the prefix.
    fn run(&self, script: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.arg(script).args(arguments).current_dir(self.folder.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.folder.path());
        command.output().unwrap()
    }

    /// Runs this package's script for the prefix, which must succeed. Returns its output.
    fn install(&self, arguments: &[&str]) -> String {
        let prefix = self.prefix.to_str().unwrap();
        let script = Path::new(PACKAGE).join("install.sh");
        said(&self.run(&script, &[&["--prefix", prefix], arguments].concat()))
    }

    /// Returns the error of a call that must fail.
    fn error(&self, arguments: &[&str]) -> String {
        let output = self.run(&Path::new(PACKAGE).join("install.sh"), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Runs this package's script as if on another system.
    fn install_on(&self, system: &str) -> Output {
        self.install_with(&[("uname", &format!("echo {system}"))], &["--binary", LBX])
    }

    /// Runs this package's script where some programs are shell scripts, with these bodies.
    fn install_with(&self, programs: &[(&str, &str)], arguments: &[&str]) -> Output {
        let folder = self.folder.path().join("programs");
        fs::create_dir_all(&folder).unwrap();
        for (name, body) in programs {
            let program = folder.join(name);
            fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let script = Path::new(PACKAGE).join("install.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg("--prefix").arg(&self.prefix).args(arguments);
        command.env("PATH", path).env("FOLDER", self.folder.path()).output().unwrap()
    }

    /// Returns every path below the prefix.
    fn paths(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        walk(&self.prefix, &self.prefix, &mut found);
        found
    }
}

/// Returns the output of a call that must succeed.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Collects the paths in a folder, from `root`.
fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        found.insert(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        if entry.file_type().unwrap().is_dir() {
            walk(root, &entry.path(), found);
        }
    }
}

#[test]
fn uninstall_removes_everything_that_was_installed() {
    let place = Place::new();
    let text = place.install(&["--binary", LBX, "--links"]);
    assert!(text.contains("Installed lbx "), "{text}");
    let paths = place.paths();
    for path in [
        "bin/lbx",
        "share/man/man1/lbx.1",
        "share/man/man5/lbx-policy.5",
        "share/man/man7/lbx-json.7",
        "share/bash-completion/completions/lbx",
        "share/zsh/site-functions/_lbx",
        "share/fish/vendor_completions.d/lbx.fish",
        "share/doc/lbx/LICENSE-MIT",
    ] {
        assert!(paths.contains(path), "{path}");
    }
    for tool in TOOLS {
        assert!(paths.contains(&format!("lib/lbx/links/{}", tool.name)), "{}", tool.name);
    }
    fs::write(place.prefix.join("a.txt"), "one\n").unwrap();
    let read = Command::new(place.prefix.join("lib/lbx/links/read"))
        .args(["a.txt", "--text"])
        .current_dir(&place.prefix)
        .env("HOME", place.folder.path())
        .output();
    assert_eq!(said(&read.unwrap()), "one\n");
    fs::remove_file(place.prefix.join("a.txt")).unwrap();

    // An update keeps the links, and remembers everything that it must remove later.
    fs::remove_dir_all(place.prefix.join(".lbx")).unwrap();
    place.install(&["--binary", LBX]);
    assert_eq!(place.paths(), paths);

    place.install(&["--uninstall"]);
    assert!(!place.prefix.exists(), "{:?}", place.paths());
    let prefix = place.prefix.to_str().unwrap();
    assert!(place.error(&["--prefix", prefix, "--uninstall"]).contains("nothing is installed"));
}

#[test]
fn install_works_on_macos_and_names_wsl_on_windows() {
    let place = Place::new();
    for (system, wanted) in
        [("MINGW64_NT-10.0-22631", "in WSL 2: 'wsl --install'"), ("Haiku", "not on Haiku")]
    {
        let output = place.install_on(system);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(wanted), "{error}");
        assert!(!place.prefix.exists());
    }
    said(&place.install_on("Darwin"));
    assert!(place.paths().contains("bin/lbx"));
}

#[test]
fn uninstall_keeps_foreign_and_changed_files() {
    let place = Place::new();
    fs::create_dir_all(place.prefix.join("bin")).unwrap();
    fs::write(place.prefix.join("bin/other"), "theirs").unwrap();
    place.install(&["--binary", LBX]);
    fs::write(place.prefix.join("share/man/man1/lbx.1"), "their own page").unwrap();
    let text = place.install(&["--uninstall"]);
    assert!(text.contains("Kept "), "{text}");
    let left = ["bin", "bin/other", "share", "share/man", "share/man/man1", "share/man/man1/lbx.1"];
    assert_eq!(place.paths(), left.map(str::to_owned).into());
}

#[test]
fn update_removes_pages_missing_in_the_new_release() {
    let place = Place::new();
    let archive = archive(&place);
    let prefix = place.prefix.to_str().unwrap();
    fs::write(archive.join("man/lbx-bygone.1"), "a page").unwrap();
    said(&place.run(&archive.join("install.sh"), &["--prefix", prefix]));
    assert!(place.paths().contains("share/man/man1/lbx-bygone.1"));
    fs::remove_file(archive.join("man/lbx-bygone.1")).unwrap();
    said(&place.run(&archive.join("install.sh"), &["--prefix", prefix]));
    assert!(!place.paths().contains("share/man/man1/lbx-bygone.1"));
    assert!(place.paths().contains("share/man/man1/lbx.1"));
}

/// Unpacks the contents of a release archive: no source, and the binary next to the script.
fn archive(place: &Place) -> PathBuf {
    let archive = place.folder.path().join("lbx 0.1.0");
    fs::create_dir(&archive).unwrap();
    for name in
        ["install.sh", "man", "completions", "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]
    {
        let copied = Command::new("cp").arg("-R").arg(Path::new(PACKAGE).join(name)).arg(&archive).status();
        assert!(copied.unwrap().success());
    }
    std::os::unix::fs::symlink(LBX, archive.join("lbx")).unwrap();
    archive
}

#[test]
fn demo_runs_from_an_archive_and_suggests_the_next_step() {
    if !is_installed("git") {
        return;
    }
    let place = Place::new();
    let archive = archive(&place);
    let prefix = place.prefix.to_str().unwrap();
    let text = said(&place.run(&archive.join("install.sh"), &["--prefix", prefix, "--demo"]));
    let wanted = ["not_read", "stale_file", "lbx diff", "lbx undo", "git log", "each as shown", "lbx init"];
    let mut rest = text.as_str();
    for part in wanted {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("no {part}, or not in this order: {text}")).1;
    }
}

#[test]
fn install_links_do_not_replace_existing_files() {
    let place = Place::new();
    fs::create_dir_all(place.prefix.join("lib/lbx/links")).unwrap();
    fs::write(place.prefix.join("lib/lbx/links/ls"), "theirs").unwrap();
    let text = place.install(&["--binary", LBX, "--links"]);
    assert!(text.contains("lib/lbx/links/ls: it is not from this script"), "{text}");
    place.install(&["--uninstall"]);
    assert_eq!(fs::read_to_string(place.prefix.join("lib/lbx/links/ls")).unwrap(), "theirs");
}

#[test]
fn invalid_install_arguments_are_errors_and_install_nothing() {
    let place = Place::new();
    fs::write(place.folder.path().join("file"), "").unwrap();
    fs::write(place.folder.path().join("other"), "#!/bin/sh\necho other 1\n").unwrap();
    for (arguments, wanted) in [
        (vec!["--prefix", ""], "is empty"),
        (vec!["--prefix"], "needs a value"),
        (vec!["--prefix", "--demo"], "needs a value"),
        (vec!["--prefix", "~/x"], "did not expand ~"),
        (vec!["--prefix", "//"], "system's own files"),
        (vec!["--prefix", "a:b"], "colon"),
        (vec!["--prefix", "a\nb"], "line break"),
        (vec!["--prefix", "file"], "is not a folder"),
        (vec!["--prefix", PACKAGE], "folder of this script"),
        (vec!["--prefix", "p", "--binary", "missing"], "there is no file"),
        (vec!["--prefix", "p", "--binary", "other"], "is no lbx that runs"),
        (vec!["--prefix", "p", "--uninstall", "--demo"], "goes with --prefix only"),
        (vec!["--unknown"], "unknown argument"),
    ] {
        let error = place.error(&arguments);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
    let left = fs::read_dir(place.folder.path()).unwrap().count();
    assert_eq!(left, 2, "only the two files of this test");
}

#[test]
fn uninstall_removes_files_of_a_failed_install() {
    let place = Place::new();
    let archive = archive(&place);
    fs::remove_file(archive.join("completions/lbx.fish")).unwrap();
    let prefix = place.prefix.to_str().unwrap();
    let output = place.run(&archive.join("install.sh"), &["--prefix", prefix]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(place.paths().contains("bin/lbx"));
    place.install(&["--uninstall"]);
    assert!(!place.prefix.exists(), "{:?}", place.paths());
}

/// A build takes musl on x86-64 Linux if Rust has that target, or rustup can add it.
#[test]
fn install_builds_for_musl_where_it_can() {
    const RUSTC: &str = r#"case "$*" in *musl*) [ -e "$FOLDER/musl" ] ;; esac"#;
    let cargo = format!(
        r#"case $1 in --version) echo cargo 1.99.0 ;; *) echo "$@" >"$FOLDER/built"; echo '{{"executable":"{LBX}"}}' ;; esac"#
    );
    let uname = |cpu: &str| format!("case $1 in -m) echo {cpu} ;; *) echo Linux ;; esac");
    for (cpu, rustup, is_musl, wanted) in [
        ("x86_64", r#"touch "$FOLDER/musl""#, true, "Adding the target x86_64-unknown-linux-musl"),
        ("x86_64", "exit 1", false, "It cannot be added; lbx is built with the system's C library"),
        ("aarch64", "exit 1", false, "Installed lbx "),
    ] {
        let place = Place::new();
        let programs = [("cargo", &*cargo), ("rustc", RUSTC), ("rustup", rustup), ("uname", &uname(cpu))];
        let text = said(&place.install_with(&programs, &[]));
        assert!(text.contains(wanted), "{text}");
        let built = fs::read_to_string(place.folder.path().join("built")).unwrap();
        assert_eq!(built.contains("--target x86_64-unknown-linux-musl"), is_musl, "{cpu}: {built}");
        if is_musl {
            // The target is there now.
            let text = said(&place.install_with(&[("rustup", "exit 1")], &[]));
            assert!(!text.contains("Adding the target"), "{text}");
        }
    }
}

/// Linux maps code in large pages only if its offsets in the file and in memory are equal modulo the page size.
#[test]
#[cfg(all(
    target_os = "linux",
    any(target_env = "gnu", target_arch = "x86_64"),
    target_pointer_width = "64",
    target_endian = "little"
))]
fn binary_segments_are_aligned_for_large_pages() {
    const LARGE_PAGE: u64 = 2 << 20;
    const LOADED: u32 = 1;
    let program = fs::read(LBX).unwrap();
    let number = |at: usize| u64::from_le_bytes(program[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(program[at..at + 4].try_into().unwrap());
    let headers = usize::try_from(number(32)).unwrap();
    let count = usize::from(program[56]);
    let loaded = (0..count).map(|header| headers + 56 * header).filter(|at| half(*at) == LOADED);
    let all: Vec<(u64, u64)> = loaded.map(|at| (number(at + 8), number(at + 16))).collect();
    assert!(all.len() > 1, "{all:x?}");
    for (offset, address) in all {
        assert_eq!(offset % LARGE_PAGE, address % LARGE_PAGE, "{offset:x} at {address:x}");
    }
}

/// The output of `.ci/order` is in the form that a linker reads, and it names existing functions.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn linker_accepts_the_function_order_file() {
    let order = ".cargo/order.ld";
    for script in ["install.sh", ".ci/release"] {
        let script = fs::read_to_string(Path::new(PACKAGE).join(script)).unwrap();
        assert!(script.contains(&format!("link-arg=-Wl,-T,{order}")), "{script}");
    }
    let place = Place::new();
    let (source, program) = (place.folder.path().join("main.rs"), place.folder.path().join("program"));
    fs::write(&source, "fn main() { println!(\"runs\") }").unwrap();
    let mut linked = Command::new("rustc");
    linked.arg(format!("-Clink-arg=-Wl,-T,{order}")).arg("-o").arg(&program).arg(&source);
    let linked = linked.current_dir(PACKAGE).output().unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    assert_eq!(Command::new(&program).output().unwrap().stdout, b"runs\n");
    let order = fs::read_to_string(Path::new(PACKAGE).join(order)).unwrap();
    // `.text._ZN3lbx6engine6change…`: each part of the path has its length before it.
    let names = order.lines().filter_map(|line| line.trim().strip_prefix(".text._ZN3lbx"));
    let modules: Vec<String> = names.filter_map(|name| Some(module(name)?.to_owned())).collect();
    let is_there = |module: &&String| {
        let path = Path::new(PACKAGE).join("src").join(module);
        path.is_dir() || path.with_extension("rs").is_file()
    };
    let there = modules.iter().filter(is_there).count();
    assert!(there > 500 && there * 10 >= modules.len() * 9, "{there} of {}: run .ci/order", modules.len());
}

/// Returns the first part of a mangled path.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn module(name: &str) -> Option<&str> {
    let digits = name.find(|c: char| !c.is_ascii_digit())?;
    let (length, rest) = name.split_at(digits);
    rest.get(..length.parse().ok()?)
}
