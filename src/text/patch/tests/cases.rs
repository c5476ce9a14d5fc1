//! One file, one patch: what comes out.

use super::super::*;

/// What a case expects.
enum Want {
    /// This text, applied anew.
    After(&'static str),
    /// The text as it was, applied already.
    Already,
    /// A conflict whose message holds this.
    Conflict(&'static str),
    /// A text that cannot be parsed, with this in its message.
    Invalid(&'static str),
}

use Want::{After, Already, Conflict, Invalid};

/// Name, text before, patch, expectation.
type Case = (&'static str, &'static str, &'static str, Want);

/// Applies the last file of `patch` to `before` and compares.
fn check(case: &Case, options: &Options) -> Result<(), String> {
    let (name, before, patch, want) = case;
    let parsed = match (parse(patch.as_bytes()), want) {
        (Ok(patch), _) => patch,
        (Err(error), Invalid(part)) if error.message.contains(part) => return Ok(()),
        (Err(error), _) => return Err(format!("{name}: does not parse: {error}")),
    };
    let mut text = before.as_bytes().to_vec();
    let mut already = true;
    for file in &parsed.files {
        match (apply(file, &text, options), want) {
            (Ok(applied), _) => {
                already &= applied.already_applied;
                text = applied.after;
            }
            (Err(conflict), Conflict(part)) if conflict.to_string().contains(part) => return Ok(()),
            (Err(conflict), _) => return Err(format!("{name}: {conflict}")),
        }
    }
    let text = String::from_utf8_lossy(&text);
    match want {
        After(after) if text == *after && !already => Ok(()),
        Already if already && text == *before => Ok(()),
        _ => Err(format!("{name}: gives {text:?}, already: {already}")),
    }
}

/// Checks every case and names all that fail.
fn check_all(cases: &[Case], options: &Options) {
    let failed: Vec<_> = cases.iter().filter_map(|case| check(case, options).err()).collect();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn formats_are_told_apart() {
    check_all(
        &[
            ("plain", "a\nb\nc\n", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", After("a\nB\nc\n")),
            (
                "git",
                "a\nb\nc\n",
                "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@ fn x\n a\n-b\n+B\n c\n",
                After("a\nB\nc\n"),
            ),
            (
                "in a fence after prose",
                "a\nb\n",
                "Here you are:\n\n```diff\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n```\n- done\n+ more\n",
                After("a\nB\n"),
            ),
            (
                "prose after a blank line",
                "a\nb\n",
                "--- a/f\n+++ b/f\n@@\n a\n-b\n+B\n\nThat is all.\n",
                After("a\nB\n"),
            ),
            ("no file names", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", After("a\nB\n")),
            ("no @@ line", "a\nb\n", "--- a/f\n+++ b/f\n a\n-b\n+B\n", After("a\nB\n")),
            (
                "timestamps",
                "a\n",
                "--- f\t2020-01-01 00:00:00.0 +0000\n+++ f\t2021-01-01\n@@ -1 +1 @@\n-a\n+b\n",
                After("b\n"),
            ),
            (
                "format-patch signature",
                "a\n",
                "From 1 Mon\nSubject: x\n---\n f | 2 +-\n\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n-- \n2.40\n",
                After("b\n"),
            ),
            (
                "svn",
                "a\n",
                "Index: f\n=======\n--- f\t(revision 1)\n+++ f\t(working copy)\n@@ -1 +1 @@\n-a\n+b\n",
                After("b\n"),
            ),
            (
                "byte-order mark before the patch",
                "a\n",
                "\u{feff}--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n",
                After("b\n"),
            ),
            (
                "removed dashes",
                "-- a\nx\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n x\n",
                After("++ b\nx\n"),
            ),
            (
                "codex",
                "a\nb\n",
                "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+B\n*** End Patch\n",
                After("a\nB\n"),
            ),
            (
                "codex without @@",
                "a\nb\n",
                "*** Begin Patch\n*** Update File: f\n a\n-b\n+B\n*** End Patch",
                After("a\nB\n"),
            ),
            (
                "codex in a here-document",
                "a\nb\n",
                "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: f\n@@\n-b\n+B\n*** End Patch\nEOF\n",
                After("a\nB\n"),
            ),
            (
                "codex headers with blanks",
                "b\n",
                "  *** Begin Patch  \n*** Update File:  f  \n@@\n-b\n+B\n*** End Patch \n",
                After("B\n"),
            ),
            (
                "codex with numbers",
                "b\nb\n",
                "*** Begin Patch\n*** Update File: f\n@@ -2,1 +2,1 @@\n-b\n+B\n*** End Patch\n",
                After("b\nB\n"),
            ),
            (
                "search and replace",
                "a\nb\nc\n",
                "f\n<<<<<<< SEARCH\nb\n=======\nB\nB2\n>>>>>>> REPLACE\n",
                After("a\nB\nB2\nc\n"),
            ),
            (
                "blocks see each other",
                "a\n",
                "f\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n\n<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE\n",
                After("c\n"),
            ),
            (
                "a block that deletes",
                "a\nb\nc\n",
                "f\n<<<<<<< SEARCH\nb\n=======\n>>>>>>> REPLACE\n",
                After("a\nc\n"),
            ),
        ],
        &Options::default(),
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_cannot_be_read_is_refused() {
    check_all(
        &[
            ("nothing", "", "", Invalid("no hunk")),
            ("prose", "", "Please change it.\n", Invalid("no hunk")),
            ("names only", "", "--- a/f\n+++ b/f\n", Invalid("no hunk for this file")),
            ("git line only", "", "diff --git a/f b/f\n", Invalid("no hunk for this file")),
            ("empty hunk", "", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n", Invalid("no lines")),
            ("bare @@", "", "@@\n", Invalid("no lines")),
            (
                "binary without bytes",
                "",
                "diff --git a/f b/f\nindex 1..2 100644\nBinary files a/f and b/f differ\n",
                Invalid("Binary files a/f and b/f differ"),
            ),
            ("plain binary", "", "Binary files f and g differ\n", Invalid("Binary files f and g")),
            ("setuid", "", "diff --git a/f b/f\nold mode 100755\nnew mode 104755\n", Invalid("setuid")),
            (
                "submodule",
                "",
                "diff --git a/f b/f\nnew file mode 160000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
                Invalid("submodule"),
            ),
            ("folder", "", "diff --git a/f b/f\nnew file mode 040000\n", Invalid("neither")),
            ("no mode", "", "diff --git a/f b/f\nnew file mode abc\n", Invalid("octal")),
            (
                "combined",
                "",
                "diff --cc f\nindex 1,2..3\n--- a/f\n+++ b/f\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n",
                Invalid("combined"),
            ),
            ("context diff", "", "*** f\n--- g\n***************\n*** 1 ****\n! a\n", Invalid("context diff")),
            ("open quote", "", "--- \"a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", Invalid("file name")),
            (
                "deletion that keeps lines",
                "",
                "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n b\n",
                Invalid("cannot keep"),
            ),
            (
                "creation with old lines",
                "",
                "--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
                Invalid("cannot have lines"),
            ),
            (
                "half a rename",
                "",
                "diff --git a/f b/g\nsimilarity index 100%\nrename from f\n",
                Invalid("names is missing"),
            ),
            ("base 85", "", "diff --git a/f b/f\nGIT binary patch\nliteral 4\n\"xx\n\n", Invalid("base 85")),
            (
                "binary cut short",
                "",
                "diff --git a/f b/f\nGIT binary patch\nliteral 4\n\n",
                Invalid("cut short"),
            ),
            ("codex without end", "", "*** Begin Patch\n*** Delete File: f\n", Invalid("*** End Patch")),
            (
                "codex without begin",
                "",
                "*** Update File: f\n@@\n-a\n+b\n*** End Patch\n",
                Invalid("*** Begin Patch"),
            ),
            ("codex without files", "", "*** Begin Patch\n*** End Patch\n", Invalid("changes nothing")),
            (
                "codex update without hunk",
                "",
                "*** Begin Patch\n*** Update File: f\n*** End Patch\n",
                Invalid("no hunk for this file"),
            ),
            (
                "codex empty hunk",
                "",
                "*** Begin Patch\n*** Update File: f\n@@ x\n*** End Patch\n",
                Invalid("no lines"),
            ),
            (
                "codex without path",
                "",
                "*** Begin Patch\n*** Update File:\n@@\n-a\n*** End Patch\n",
                Invalid("names no file"),
            ),
            (
                "codex add without plus",
                "",
                "*** Begin Patch\n*** Add File: f\nx\n*** End Patch\n",
                Invalid("begins with `+`"),
            ),
            (
                "codex bad hunk line",
                "",
                "*** Begin Patch\n*** Update File: f\n@@\nx\n*** End Patch\n",
                Invalid("a hunk line"),
            ),
            (
                "codex late move",
                "",
                "*** Begin Patch\n*** Update File: f\n@@\n-a\n*** Move to: g\n*** End Patch\n",
                Invalid("belongs right after"),
            ),
            (
                "codex in another folder",
                "",
                "cd sub && apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: f\n*** End Patch\nEOF\n",
                Invalid("`cd`"),
            ),
            ("block without end", "", "<<<<<<< SEARCH\na\n=======\nb\n", Invalid("REPLACE")),
        ],
        &Options::default(),
    );
}

#[test]
fn counts_and_positions_may_be_wrong_where_the_place_is_sure() {
    check_all(
        &[
            ("counts", "a\nb\nc\n", "--- f\n+++ f\n@@ -1,9 +1,1 @@\n a\n-b\n+B\n c\n", After("a\nB\nc\n")),
            (
                "drifted",
                "x\ny\na\nb\nc\n",
                "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
                After("x\ny\na\nB\nc\n"),
            ),
            (
                "far beyond",
                "a\nb\n",
                "--- f\n+++ f\n@@ -99999999999999999999,2 +1,2 @@\n a\n-b\n+B\n",
                After("a\nB\n"),
            ),
            (
                "two places, exact line",
                "a\nb\na\nb\n",
                "--- f\n+++ f\n@@ -3,2 +3,2 @@\n a\n-b\n+B\n",
                After("a\nb\na\nB\n"),
            ),
            (
                "two places, other line",
                "a\nb\na\nb\n",
                "--- f\n+++ f\n@@ -2,2 +2,2 @@\n a\n-b\n+B\n",
                Conflict("lines 1, 3"),
            ),
            (
                "two places, no line",
                "a\nb\na\nb\n",
                "--- f\n+++ f\n@@\n a\n-b\n+B\n",
                Conflict("several places"),
            ),
            (
                "drift goes on",
                "x\na\nb\nk\na\nb\n",
                "--- f\n+++ f\n@@ -3 +3 @@\n-k\n+K\n@@ -4,2 +4,2 @@\n a\n-b\n+B\n",
                After("x\na\nb\nK\na\nB\n"),
            ),
            (
                "after the hunk before",
                "k\nb\nm\nb\n",
                "*** Begin Patch\n*** Update File: f\n@@\n-m\n+M\n@@\n-b\n+B\n*** End Patch\n",
                After("k\nb\nM\nB\n"),
            ),
            (
                "out of order",
                "a\nb\nc\nd\n",
                "*** Begin Patch\n*** Update File: f\n@@\n-d\n+D\n@@\n-b\n+B\n*** End Patch\n",
                After("a\nB\nc\nD\n"),
            ),
            (
                "shared context",
                "a\nb\nc\n",
                "--- f\n+++ f\n@@\n-a\n+A\n b\n@@\n b\n-c\n+C\n",
                After("A\nb\nC\n"),
            ),
            (
                "the same line twice",
                "a\nb\n",
                "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+A\n@@ -1,2 +1,2 @@\n-a\n+X\n b\n",
                Conflict("another hunk changes too"),
            ),
            (
                "blank context without space",
                "a\n\nb\n",
                "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n",
                After("a\n\nB\n"),
            ),
            (
                "nowhere",
                "a\nb\nc\n",
                "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-x\n+B\n c\n",
                Conflict("line 2 should be `x` and is `b`"),
            ),
            ("lines without a place", "a\nb\n", "--- f\n+++ f\n@@\n+x\n", Conflict("does not say where")),
            (
                "at the top of a file that has lines",
                "a\n",
                "--- f\n+++ f\n@@ -0,0 +1 @@\n+x\n",
                Conflict("does not say where"),
            ),
            ("into an empty file", "", "--- f\n+++ f\n@@ -0,0 +1 @@\n+x\n", After("x\n")),
            (
                "without context at its line",
                "a\nb\n",
                "--- f\n+++ f\n@@ -1,0 +2 @@\n+x\n",
                After("a\nx\nb\n"),
            ),
            ("all lines", "a\nb\n", "--- f\n+++ f\n@@ -1,2 +0,0 @@\n-a\n-b\n", After("")),
        ],
        &Options::default(),
    );
}

#[test]
fn white_space_and_typography_are_forgiven_where_the_place_is_sure() {
    check_all(
        &[
            (
                "trailing blank in the file",
                "a  \nb\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
                After("a  \nB\n"),
            ),
            (
                "trailing blank in the patch",
                "a\nb\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a \n-b\t\n+B\n",
                After("a\nB\n"),
            ),
            (
                "indentation",
                "\ta\n\tb\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n   a\n-  b\n+\tB\n",
                After("\ta\n\tB\n"),
            ),
            (
                "quotes",
                "say \u{201c}a\u{201d}\nb\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n say \"a\"\n-b\n+B\n",
                After("say \u{201c}a\u{201d}\nB\n"),
            ),
            ("dashes", "a \u{2013} b\nc\n", "--- f\n+++ f\n@@\n a - b\n-c\n+C\n", After("a \u{2013} b\nC\n")),
            (
                "two places but for blanks",
                "a \nb\na\t\nb\n",
                "--- f\n+++ f\n@@\n a\n-b\n+B\n",
                Conflict("lines 1, 3"),
            ),
            (
                "exact wins over blanks",
                "a \nb\na\nb\n",
                "--- f\n+++ f\n@@\n a\n-b\n+B\n",
                After("a \nb\na\nB\n"),
            ),
            ("blank lines alone", "a\n\t\nb\n", "--- f\n+++ f\n@@\n-   \n+x\n", Conflict("matches nowhere")),
        ],
        &Options::default(),
    );
}

#[test]
fn line_endings_stay_the_files() {
    check_all(
        &[
            (
                "LF patch, CRLF file",
                "a\r\nb\r\nc\r\n",
                "--- f\n+++ f\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+X\n c\n",
                After("a\r\nB\r\nX\r\nc\r\n"),
            ),
            (
                "CRLF patch, LF file",
                "a\nb\nc\n",
                "--- f\r\n+++ f\r\n@@ -1,3 +1,3 @@\r\n a\r\n-b\r\n+B\r\n c\r\n",
                After("a\nB\nc\n"),
            ),
            (
                "CRLF patch, CRLF file",
                "a\r\nb\r\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n",
                After("a\r\nB\r\n"),
            ),
            (
                "CRLF becomes LF",
                "a\r\nb\r\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n",
                After("a\nb\r\n"),
            ),
            ("LF becomes CRLF", "a\nb\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+a\r\n b\n", After("a\r\nb\n")),
            (
                "mixed, the replaced line's",
                "a\r\nb\nc\r\n",
                "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
                After("a\r\nB\nc\r\n"),
            ),
            (
                "codex with CRLF",
                "a\nb\n",
                "*** Begin Patch\r\n*** Update File: f\r\n@@\r\n-b\r\n+B\r\n*** End Patch\r\n",
                After("a\nB\n"),
            ),
            (
                "blocks with CRLF",
                "a\nb\n",
                "f\r\n<<<<<<< SEARCH\r\nb\r\n=======\r\nB\r\n>>>>>>> REPLACE\r\n",
                After("a\nB\n"),
            ),
            ("old Mac", "a\rb\rc\r", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", After("a\rB\rc\r")),
            (
                "a carriage return inside a line",
                "a\rb\nc\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\rb\n-c\n+C\n",
                After("a\rb\nC\n"),
            ),
        ],
        &Options::default(),
    );
}

#[test]
fn the_final_newline_changes_only_where_the_patch_says_so() {
    check_all(
        &[
            ("none stays none", "a\nb", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", After("a\nB")),
            (
                "none stays none, marked",
                "a\nb",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n",
                After("a\nB"),
            ),
            (
                "gets one",
                "a\nb",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
                After("a\nb\n"),
            ),
            (
                "loses it",
                "a\nb\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
                After("a\nb"),
            ),
            (
                "has lost it",
                "a\nb",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
                Already,
            ),
            ("append to none", "a", "--- f\n+++ f\n@@ -1 +1,2 @@\n a\n+b\n", After("a\nb")),
            (
                "append to none in CRLF",
                "a\r\nb",
                "--- f\n+++ f\n@@ -2 +2,2 @@\n b\n+c\n",
                After("a\r\nb\r\nc"),
            ),
            (
                "append with marks",
                "a",
                "--- f\n+++ f\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n",
                After("a\nb\n"),
            ),
            (
                "codex keeps none",
                "a\nb",
                "*** Begin Patch\n*** Update File: f\n@@\n-b\n+B\n*** End Patch\n",
                After("a\nB"),
            ),
            (
                "created without",
                "",
                "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n",
                After("a"),
            ),
            (
                "mark in the middle",
                "a\nb\n",
                "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+A\n",
                Conflict("hunk 1"),
            ),
            (
                "last line goes",
                "a\nb",
                "--- f\n+++ f\n@@ -1,2 +1 @@\n a\n-b\n\\ No newline at end of file\n",
                After("a\n"),
            ),
        ],
        &Options::default(),
    );
}

#[test]
fn codex_anchors_narrow_the_search() {
    let file = "class A:\n  def f():\n    x = 1\n  def g():\n    x = 1\nclass B:\n  def f():\n    x = 1\n";
    check_all(
        &[
            (
                "one",
                file,
                "*** Begin Patch\n*** Update File: f\n@@ def g():\n-    x = 1\n+    x = 2\n*** End Patch\n",
                After(
                    "class A:\n  def f():\n    x = 1\n  def g():\n    x = 2\nclass B:\n  def f():\n    x = 1\n",
                ),
            ),
            (
                "two",
                file,
                "*** Begin Patch\n*** Update File: f\n@@ class B:\n@@ def f():\n-    x = 1\n+    x = 2\n*** End Patch\n",
                After(
                    "class A:\n  def f():\n    x = 1\n  def g():\n    x = 1\nclass B:\n  def f():\n    x = 2\n",
                ),
            ),
            (
                "one of two",
                file,
                "*** Begin Patch\n*** Update File: f\n@@ def f():\n-    x = 1\n+    x = 2\n*** End Patch\n",
                Conflict("lines 3, 8"),
            ),
            (
                "not there",
                file,
                "*** Begin Patch\n*** Update File: f\n@@ def h():\n-    x = 1\n+    x = 2\n*** End Patch\n",
                Conflict("anchor that is nowhere: `def h():`"),
            ),
            (
                "part of the line",
                "pub fn a() {\n  x\n}\npub fn b() {\n  x\n}\n",
                "*** Begin Patch\n*** Update File: f\n@@ fn b()\n-  x\n+  y\n*** End Patch\n",
                After("pub fn a() {\n  x\n}\npub fn b() {\n  y\n}\n"),
            ),
            (
                "repeated as context",
                "a\nfn b\n  x\n",
                "*** Begin Patch\n*** Update File: f\n@@ fn b\n fn b\n-  x\n+  y\n*** End Patch\n",
                After("a\nfn b\n  y\n"),
            ),
            (
                "at the end",
                "x\ny\nx\n",
                "*** Begin Patch\n*** Update File: f\n@@\n-x\n+z\n*** End of File\n*** End Patch\n",
                After("x\ny\nz\n"),
            ),
            (
                "not at the end",
                "x\ny\n",
                "*** Begin Patch\n*** Update File: f\n@@\n-x\n+z\n*** End of File\n*** End Patch\n",
                Conflict("matches nowhere"),
            ),
            (
                "lines alone go to the end",
                "x\n",
                "*** Begin Patch\n*** Update File: f\n@@\n+y\n*** End Patch\n",
                After("x\ny\n"),
            ),
            (
                "lines alone are there",
                "x\ny\n",
                "*** Begin Patch\n*** Update File: f\n@@\n+y\n*** End Patch\n",
                Already,
            ),
        ],
        &Options::default(),
    );
}

#[test]
fn what_is_applied_is_not_applied_again() {
    check_all(
        &[
            ("replaced", "a\nB\nc\n", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", Already),
            ("inserted", "a\nx\nb\n", "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n+x\n b\n", Already),
            ("inserted at the top", "x\na\nb\n", "--- f\n+++ f\n@@ -1,2 +1,3 @@\n+x\n a\n b\n", Already),
            ("appended", "a\nb\nx\n", "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n b\n+x\n", Already),
            ("deleted", "a\nc\n", "--- f\n+++ f\n@@ -1,3 +1,2 @@\n a\n-b\n c\n", Already),
            (
                "codex inserted",
                "a\nx\nb\n",
                "*** Begin Patch\n*** Update File: f\n@@\n a\n+x\n*** End Patch\n",
                Already,
            ),
            (
                "codex deleted",
                "a\nc\n",
                "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n c\n*** End Patch\n",
                Already,
            ),
            ("all of two", "A\nx\nB\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-b\n+B\n", Already),
            (
                "one of two",
                "A\nx\nb\n",
                "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-b\n+B\n",
                After("A\nx\nB\n"),
            ),
            (
                "replaced here, old text elsewhere",
                "a\nB\nq\na\nb\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
                Already,
            ),
            (
                "one more of the same",
                "x\nx\nx\nx\nx\nx\nx\nx\n",
                "--- f\n+++ f\n@@ -1,6 +1,7 @@\n x\n x\n x\n+x\n x\n x\n x\n",
                After("x\nx\nx\nx\nx\nx\nx\nx\nx\n"),
            ),
            ("block", "a\nB\nC\n", "f\n<<<<<<< SEARCH\nb\nc\n=======\nB\nC\n>>>>>>> REPLACE\n", Already),
            (
                "block that inserts",
                "a\nb\nc\n",
                "f\n<<<<<<< SEARCH\na\n=======\na\nb\n>>>>>>> REPLACE\n",
                Already,
            ),
        ],
        &Options::default(),
    );
}

#[test]
fn strict_believes_only_what_is_right() {
    let strict = Options { strict: true, ..Options::default() };
    check_all(
        &[
            ("right", "a\nb\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", After("a\nB\n")),
            ("counts", "a\nb\n", "--- f\n+++ f\n@@ -1,3 +1,2 @@\n a\n-b\n+B\n", Conflict("counts")),
            ("no counts", "a\nb\n", "--- f\n+++ f\n@@\n a\n-b\n+B\n", Conflict("counts")),
            ("drift", "x\na\nb\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", Conflict("line 1")),
            ("blanks", "a \nb\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", Conflict("line 1")),
            (
                "line endings",
                "a\r\nb\r\n",
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
                After("a\r\nB\r\n"),
            ),
            ("final newline", "a\nb", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", Conflict("hunk 1")),
            ("applied", "a\nB\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", Already),
        ],
        &strict,
    );
}

#[test]
fn fuzz_ignores_context_at_the_ends() {
    let fuzz = Options { fuzz: 1, ..Options::default() };
    check_all(
        &[
            ("first", "A\nb\nc\n", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", After("A\nB\nc\n")),
            ("last", "a\nb\nC\n", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", After("a\nB\nC\n")),
            ("too many", "A\nA\nb\n", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n a\n-b\n+B\n", Conflict("hunk 1")),
            (
                "not alone",
                "A\nb\nq\nb\n",
                "--- f\n+++ f\n@@ -9,2 +9,2 @@\n a\n-b\n+B\n",
                Conflict("several places"),
            ),
        ],
        &fuzz,
    );
}

#[test]
fn reports_name_place_offset_and_tier() {
    let patch = parse(b"--- f\n+++ f\n@@ -1 +1,2 @@\n-a\n+A\n+A\n@@ -3,2 +4,2 @@\n c\n-d\n+D\n").unwrap();
    let applied = apply(&patch.files[0], b"a\nb\nx\nc \nd\n", &Options::default()).unwrap();
    assert_eq!(applied.after, b"A\nA\nb\nx\nc \nD\n");
    let [first, second] = applied.hunks[..] else { panic!("two hunks") };
    assert_eq!((first.line, first.offset, first.tier, first.exact_and_unique), (1, 0, Tier::Exact, true));
    assert_eq!((second.line, second.offset, second.tier), (5, 1, Tier::TrailingSpace));
    assert!(!second.exact_and_unique);
}

#[test]
fn every_hunk_has_its_fate_in_one_answer() {
    let patch =
        parse(b"--- f\n+++ f\n@@ -1 +1 @@\n-a\n+A\n@@ -2,2 +2,2 @@\n \tb\n-c\n+C\n@@ -4 +4 @@\n-d\n+D\n")
            .unwrap();
    let conflict = apply(&patch.files[0], b"A\n\tb\nx \nd\n", &Options::default()).unwrap_err();
    assert!(matches!(conflict.hunks[0].fate, Fate::AlreadyApplied { line: 1 }));
    assert!(matches!(conflict.hunks[2].fate, Fate::Applies { line: 4, .. }));
    let (_, failure) = conflict.failures().next().unwrap();
    let nearest = failure.nearest.as_ref().unwrap();
    assert_eq!((nearest.line, nearest.differs_at), (2, 3));
    assert_eq!((nearest.wanted.as_str(), nearest.found.as_deref()), ("c", Some("x·")));
}
