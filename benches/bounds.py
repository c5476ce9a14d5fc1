#!/usr/bin/env python3
"""Time and peak memory of the requests that are hardest to bound.

Each case makes a workspace of its own in a git repository, calls `lbx`, and prints a line of a
Markdown table: wall and CPU time, peak resident memory and what the answer was. A release build should stay
within 2 s and 128 MiB, or answer `timeout` or `too_large`.

usage: benches/bounds.py LBX [CASE...]
  LBX   the binary, such as target/release/lbx
  CASE  run only the cases whose title contains one of these words
"""

import json
import os
import random
import subprocess
import sys
import tempfile

TIME_MAX_S = 2.0
MEMORY_MAX_MIB = 128
RANDOM = random.Random(20261122)
# Runs a command, and prints its time and peak memory. A process starts with the peak of its parent, so the parent
# must be small: memory below its 10 MiB is not seen.
MEASURE = """
import os, sys, time
start = time.monotonic()
pid = os.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status), file=sys.stderr)
"""


class Workspace:
    """A git repository with files, and calls of lbx in it."""

    def __init__(self, lbx, title):
        self.lbx, self.title = lbx, title
        self.home = tempfile.mkdtemp(prefix="lbx-bounds-")
        self.root = os.path.join(self.home, "ws")
        os.mkdir(self.root)
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.home, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "init", "-q", self.root], check=True, env=self.environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", self.home], check=True)  # some trees are too deep for Python

    def file(self, path, content):
        """Writes a file."""
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def deep(self, depth, each):
        """Makes folders `depth` deep below `x`, with a file in each or in the innermost one alone."""
        folder = os.open(self.root, os.O_RDONLY)
        for number in range(depth):
            name = "d" if number else "x"
            os.mkdir(name, dir_fd=folder)
            inner = os.open(name, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
            if each or number == depth - 1:
                made = os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=folder)
                os.write(made, b"text %d\n" % number)
                os.close(made)
        os.close(folder)

    def call(self, tool, request=None, step="", told=True):
        """Calls a tool, and prints what it cost."""
        where = os.path.join(self.home, "request.json")
        with open(where, "w", encoding="utf-8") as file:
            json.dump(request or {}, file)
        with tempfile.TemporaryFile() as answer:
            command = [self.lbx, tool, "--json", "@" + where]
            measured = subprocess.run(
                [sys.executable, "-S", "-c", MEASURE, *command],
                cwd=self.root,
                env=self.environment,
                stdout=answer,
                stderr=subprocess.PIPE,
                check=True,
                text=True,
            )
            took, cpu, kib, status = measured.stderr.split()[-4:]
            size = answer.tell()
            answer.seek(0)
            try:
                value = json.load(answer)
            except ValueError:
                value = {"ok": False, "error": {"kind": f"no JSON, status {status}"}}
        if told:
            self.tell(step or tool, (float(took), float(cpu)), int(kib) / 1024, size, value)
        return value

    def tell(self, step, times, mib, size, value):
        """Prints a line of the table."""
        kind = "ok" if value["ok"] else value["error"]["kind"]
        took, cpu = times
        is_within = (took <= TIME_MAX_S and mib <= MEMORY_MAX_MIB) or kind in ("timeout", "too_large")
        mark = "" if is_within else " **over**"
        print(f"| {self.title}: {step} | {took:.2f} | {cpu:.2f} | {mib:.0f} | {size} | {kind}{mark} |", flush=True)


def random_lines(count, width=40):
    """Lines that are all different."""
    return [f"{RANDOM.getrandbits(width * 4):0{width}x}\n" for _ in range(count)]


def reordered(ws):
    """A stale edit, a rebase and a merge where others reordered all lines."""
    lines = random_lines(60_000, 20)
    ws.file("f", "".join(lines))
    ws.call("read", {"path": "f", "limit": 0, "max_bytes": 0}, told=False)
    ws.call("edit", {"path": "f", "old_string": lines[9], "new_string": "mine\n"}, told=False)
    RANDOM.shuffle(lines)
    ws.file("f", "".join(lines))
    ws.call("edit", {"path": "f", "old_string": lines[5], "new_string": "new\n"}, "stale edit")
    ws.call("edit", {"path": "f", "old_string": lines[5], "new_string": "new\n", "rebase": True}, "rebase")
    ws.call("undo", {"merge": True}, "undo merge")


def search_of_equal_bytes(ws):
    """An old text of 100 kB of one letter in 1 MB of it."""
    ws.file("f", "x" * 1_000_000)
    ws.call("read", {"path": "f", "limit": 0, "max_bytes": 0}, told=False)
    ws.call("edit", {"path": "f", "old_string": "x" * 100_000, "new_string": "y"}, "edit")


def near_lines(ws):
    """A miss of 4,000 lines that are nearly those of a file of 200,000."""
    lines = [f"let value_{number} = compute({number});\n" for number in range(200_000)]
    ws.file("f", "".join(lines))
    ws.call("grep", {"pattern": "value_1 ", "path": "f", "mark": True}, told=False)
    ws.call("read", {"path": "f", "limit": 0, "max_bytes": 0}, told=False)
    old = "".join(line.replace("compute", "Compute") for line in lines[70_000:74_000])
    ws.call("edit", {"path": "f", "old_string": old, "new_string": "x"}, "edit")


def sketch_of_equal_lines(ws):
    """A sketch of 500 equal lines."""
    ws.file("f", "    same();\n" * 5000)
    ws.call("read", {"path": "f", "limit": 0, "max_bytes": 0}, told=False)
    sketch = "// ... existing code ...\n" + "    same();\n" * 500 + "// ... existing code ...\n"
    ws.call("edit", {"path": "f", "sketch": sketch}, "edit")


def many_edits(ws):
    """10,000 edits in one request."""
    ws.file("f", "".join(f"line {number} end\n" for number in range(100_000)))
    ws.call("read", {"path": "f", "limit": 0, "max_bytes": 0}, told=False)
    edits = [{"old_string": f"line {n} end", "new_string": f"LINE {n} end"} for n in range(0, 100_000, 10)]
    ws.call("edit", {"path": "f", "edits": edits}, "edit")


def many_marks(ws):
    """One move after a session has read 20,000 files."""
    for number in range(20_000):
        ws.file(f"d{number % 100}/f{number}", f"text {number}\n")
    ws.call("grep", {"pattern": "text", "mark": True, "limit": 0, "max_bytes": 0}, "grep with marks")
    ws.call("move", {"from": "d1/f1", "to": "d1/g1"}, "move")
    ws.call("move", {"from": "d2", "to": "e2"}, "move of a folder")


def deep_folders(ws, depth, each=False):
    """Every change of a folder with many below each other."""
    ws.deep(depth, each)
    ws.call("move", {"from": "x", "to": "y"}, "move")
    ws.call("undo", {}, "undo")
    ws.call("redo", {}, "redo")
    trashed = ws.call("delete", {"path": "y", "recursive": True}, "delete")
    ws.call("restore", {"trash_id": trashed.get("data", {}).get("trash_id", "")}, "restore")
    ws.call("undo", {}, "undo of the restore")
    ws.call("undo", {}, "undo of the delete")


def many_files(ws, count):
    """A patch over many files, and back: small ones that it creates, and 4 kB each that it changes."""
    part = "--- /dev/null\n+++ b/n{0}/f{1}\n@@ -0,0 +1,2 @@\n+one {1}\n+two\n"
    ws.call("patch", {"patch": "".join(part.format(n % 50, n) for n in range(count))}, "patch that creates")
    ws.call("undo", {}, "undo")
    body = "".join(f"line {number} of this file, as long as most\n" for number in range(90))
    for number in range(count):
        ws.file(f"d{number % 50}/f{number}", f"one {number}\ntwo\n{body}")
    ws.call("grep", {"pattern": "one", "mark": True, "limit": 0, "max_bytes": 0}, told=False)
    part = "--- a/d{0}/f{1}\n+++ b/d{0}/f{1}\n@@ -1,2 +1,2 @@\n-one {1}\n+ONE {1}\n two\n"
    ws.call("patch", {"patch": "".join(part.format(n % 50, n) for n in range(count))}, "patch that changes")
    ws.call("undo", {}, "undo")
    ws.call("redo", {}, "redo")


def wide_folder(ws, count):
    """Every change of a folder of many files of 4 kB."""
    body = "".join(f"line {number} of this file, as long as most\n" for number in range(90))
    for number in range(count):
        ws.file(f"x/d{number % 100}/f{number}", f"text {number}\n{body}")
    ws.call("move", {"from": "x", "to": "y"}, "move")
    ws.call("undo", {}, "undo")
    trashed = ws.call("delete", {"path": "x", "recursive": True}, "delete")
    ws.call("restore", {"trash_id": trashed.get("data", {}).get("trash_id", "")}, "restore")


def many_replacements(ws):
    """10 million replacements."""
    ws.file("f", "\n" * 10_000_000)
    ws.call("read", {"path": "f"}, told=False)
    request = {"path": "f", "old_string": "\n", "new_string": "x", "replace_all": True}
    ws.call("edit", request, "edit")
    ws.file("g", "a\n" * 5_000_000)
    ws.call("read", {"path": "g"}, told=False)
    ws.call("edit", {**request, "path": "g", "old_string": "a", "new_string": "b"}, "edit of each line")


def many_headers(ws):
    """2.5 million headers."""
    ws.file("f.md", "# a\n" * 2_500_000)
    ws.call("section", {"path": "f.md", "header": "a", "content": "x\n"}, "section")
    ws.call("section", {"path": "f.md", "header": "missing", "content": "x\n"}, "missing section")


def long_old_string(ws):
    """An old text of 8.5 MB."""
    lines = random_lines(210_000)
    text = "".join(lines)
    ws.file("f", text)
    ws.call("read", {"path": "f"}, told=False)
    ws.call("edit", {"path": "f", "old_string": text[41:], "new_string": "x\n"}, "edit")
    ws.file("f", text)
    ws.call("read", {"path": "f"}, told=False)
    ws.call("edit", {"path": "f", "old_string": text[41:].replace("0", "1", 1), "new_string": "x\n"}, "miss")


def missing_paths(ws):
    """A million paths that do not exist."""
    ws.call("read", {"paths": [f"p{number}" for number in range(1_000_000)]}, "read")
    ws.call("grep", {"pattern": "x", "path": "f", "paths": [f"p{n}" for n in range(1_000_000)]}, "grep")


def long_match(ws):
    """A match of 15 MB over many lines."""
    ws.file("f", "begin\n" + "x\n" * 7_500_000 + "end\n")
    ws.call("grep", {"pattern": "begin(?s:.)*end", "path": "f", "multiline": True}, "grep")


def large_write(ws):
    """10 MB of lines that are all different, written over as many others."""
    first, second = "".join(random_lines(250_000, 39)), "".join(random_lines(250_000, 39))
    ws.call("write", {"path": "f", "content": first}, "new file")
    ws.call("write", {"path": "f", "content": second}, "over another")
    ws.call("append", {"path": "f", "content": "x\n"}, "append")
    ws.call("undo", {"steps": 2}, "undo")


CASES = {
    "60,000 reordered lines": reordered,
    "100 kB of x in 1 MB of x": search_of_equal_bytes,
    "4,000 near lines in 200,000": near_lines,
    "sketch of 500 equal lines": sketch_of_equal_lines,
    "10,000 edits": many_edits,
    "marks of 20,000 files": many_marks,
    "1,000 folders deep": lambda ws: deep_folders(ws, 1000),
    "1,000 folders deep, a file in each": lambda ws: deep_folders(ws, 1000, each=True),
    "1,900 folders deep": lambda ws: deep_folders(ws, 1900),
    "6,000 files": lambda ws: many_files(ws, 6000),
    "folder of 20,000 files": lambda ws: wide_folder(ws, 20_000),
    "10 million replacements": many_replacements,
    "2.5 million headers": many_headers,
    "old_string of 8.5 MB": long_old_string,
    "a million missing paths": missing_paths,
    "match of 15 MB": long_match,
    "write of 10 MB": large_write,
}


def main():
    """Runs the cases."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    lbx, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    print("| case | s | s of CPU | MiB | bytes of the answer | answer |\n|---|---|---|---|---|---|", flush=True)
    for title, case in CASES.items():
        if not words or any(word in title for word in words):
            with Workspace(lbx, title) as ws:
                case(ws)


if __name__ == "__main__":
    main()
