#!/usr/bin/env python3
"""Times calls after many reads and many changes of one session, and in a tree of many files, next to the same calls after
few, as ratios in one run.

usage: benches/scale.py [LBX] [CHANGES] [READS] [FILES]

Makes the histories with a server in a folder in memory (TMPDIR, else /dev/shm), undurable. Each row runs interleaved in
two workspaces; it shows the median of each in milliseconds, the median of their ratios, and the most memory that a call
took in the larger one. Calls that would change something are dry runs, but for `append`.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import common

# Changes of the smaller history, and files that both change.
FEW = FILES = 100
# Files that a session changes for the rows about many files.
MANY_FILES = 500
RUNS = 7
LINES = 40
SESSION = "long"
# Sessions that change something after it.
OTHERS = ["a", "b", "c"]


class Server:
    """A server of lbx for one session."""

    def __init__(self, lbx, folder, home, session):
        self.process = subprocess.Popen(
            [lbx, "mcp", "--session", session, "--set", "durable=false"], cwd=folder, env=common.environment(home),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.count = 0
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                    "clientInfo": {"name": "bench", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, parameters):
        self.count += 1
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": parameters})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.count:
                return answer

    def call(self, tool, **arguments):
        """Calls a tool, which must succeed."""
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        if answer.get("error") or answer["result"].get("isError"):
            sys.exit(f"{tool} {arguments}: {answer}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def path_of(number):
    """Path of a file."""
    return f"d{number % 10}/f{number}.txt"


def make(folder, home, files):
    """Makes a repository with so many files."""
    for number in range(files):
        path = os.path.join(folder, path_of(number))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"line {line} of {number}\n" for line in range(LINES))
    common.commit_all(folder, home)


def change(lbx, folder, home, changes, files):
    """Makes so many changes of the files in one session, and one in each of a few others."""
    for session, count in ((SESSION, changes), *((other, 1) for other in OTHERS)):
        server = Server(lbx, folder, home, session)
        for number in range(count):
            server.call("append", path=path_of(number % files), content=f"change {number} by {session}\n")
        server.close()


def timed(words, folder, home, text=None):
    """Milliseconds and kilobytes of a call, which may fail: a redo that has nothing to redo does."""
    os.chdir(folder)
    if text is not None:
        reader, writer = os.pipe()
        os.write(writer, text)
        os.close(writer)
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, reader if text is not None else null, 0),
               (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    start = common.time.perf_counter_ns()
    process = os.posix_spawn(words[0], words, common.environment(home), file_actions=actions)
    _, _, usage = os.wait4(process, 0)
    took = (common.time.perf_counter_ns() - start) / 1e6
    os.close(null)
    if text is not None:
        os.close(reader)
    return took, usage.ru_maxrss


def rows(title, small, large, home, calls):
    """Prints a row for each call in two workspaces."""
    print(f"\n{title:34} {'few':>9} {'many':>9} {'ratio':>7} {'MB':>6}")
    for name, words, text in calls:
        times, memory = ([], []), 0
        for _ in range(RUNS):
            for place, folder in enumerate((small, large)):
                took, kilobytes = timed(words, folder, home, text)
                times[place].append(took)
                memory = max(memory, kilobytes if place else 0)
        few, many = map(statistics.median, times)
        ratio = statistics.median(large / small for small, large in zip(*times))
        print(f"  {name:32} {few:9.2f} {many:9.2f} {ratio:7.2f} {memory / 1024:6.1f}", flush=True)


def event(name, **more):
    """An event of a client."""
    fields = {"hook_event_name": name, "session_id": "h", "prompt_id": "p", "tool_use_id": "c"}
    return json.dumps(fields | more).encode()


def after_reads(lbx, top, home, reads):
    """Prints the rows about files that the session has read."""
    small, large = (os.path.join(top, name) for name in ("unread", "read"))
    for folder in (small, large):
        os.makedirs(folder)
        make(folder, home, reads)
        common.call([lbx, "read", path_of(3), "--session", SESSION], folder, home)
    words = [lbx, "--session", SESSION, "--set", "durable=false"]
    common.call([*words, "grep", "line 1 of", "--mark", "--limit", "0", "--max-bytes", "0"], large, home)
    rows(f"{reads} files read", small, large, home, [
        ("read", [lbx, "--session", SESSION, "read", path_of(3)], None),
        ("append, with a snapshot", [*words, "append", path_of(3), "--content", "x\n"], None),
    ])
    shutil.rmtree(small)
    shutil.rmtree(large)


def after_changes(lbx, top, home, changes):
    """Prints the rows about changes of the session."""
    small, large = (os.path.join(top, name) for name in ("few", "many"))
    for folder, count in ((small, FEW), (large, changes)):
        os.makedirs(folder)
        make(folder, home, MANY_FILES)
        change(lbx, folder, home, count, FILES)
    own, fresh, dry = [lbx, "--session", SESSION], [lbx, "--session", "fresh"], ["--dry-run"]
    hook = [lbx, "hook", "claude-code", "--session", "h"]
    edit = {"tool_name": "Edit", "tool_input": {"file_path": path_of(7)}, "tool_response": {}}
    rows(f"{changes} changes of {FILES} files", small, large, home, [
        ("append, with a snapshot", [*own, "--set", "durable=false", "append", path_of(3), "--content", "x\n"], None),
        ("undo of the last", [*own, "undo", *dry], None),
        ("undo, nothing to undo", [*fresh, "undo", *dry], None),
        ("redo, nothing to redo", [*own, "redo", *dry], None),
        ("undo --turn, far back", [*own, "undo", "--turn", "3", *dry], None),
        ("undo --seq, far back", [*own, "undo", "--seq", "3", *dry], None),
        ("session", [*own, "session"], None),
        ("review, first page", [*own, "review"], None),
        ("diff", [*own, "diff"], None),
        ("squash", [*own, "squash", "-m", "all", *dry], None),
        ("audit, newest 50", [lbx, "audit", "--limit", "50"], None),
        ("stats", [lbx, "stats"], None),
        ("log", [lbx, "log"], None),
        ("log --turns", [lbx, "log", "--turns"], None),
        ("hook, before Edit", hook, event("PreToolUse", **edit)),
        ("hook, after Edit", hook, event("PostToolUse", **edit)),
    ])
    shutil.rmtree(small)
    shutil.rmtree(large)


def in_a_tree(lbx, top, home, files):
    """Prints the rows about names and texts that are not there, in a tree of many files."""
    small, large = (os.path.join(top, name) for name in ("little", "big"))
    for folder, count in ((small, FEW), (large, files)):
        os.makedirs(folder)
        make(folder, home, count)
        common.call([lbx, "read", path_of(3), "--session", SESSION], folder, home)
    own = [lbx, "--session", SESSION]
    rows(f"{files} files", small, large, home, [
        ("read", [*own, "read", path_of(3)], None),
        ("read, no such file", [*own, "read", "nothing.like"], None),
        ("edit, no match", [*own, "edit", path_of(3), "--old-string", "nowhere", "--new-string", "x"], None),
    ])
    shutil.rmtree(small)
    shutil.rmtree(large)


def after_changes_of_many_files(lbx, top, home, changes):
    """Prints the rows about a session that changed many files."""
    small, large = (os.path.join(top, name) for name in ("once", "again"))
    for folder, count in ((small, MANY_FILES), (large, changes)):
        os.makedirs(folder)
        make(folder, home, MANY_FILES)
        change(lbx, folder, home, count, MANY_FILES)
    own = [lbx, "--session", SESSION]
    rows(f"{changes} changes of {MANY_FILES} files", small, large, home, [
        ("diff", [*own, "diff"], None),
        ("squash", [*own, "squash", "-m", "all", "--dry-run"], None),
    ])


def main():
    """Prints the tables."""
    lbx = os.path.realpath(shutil.which(sys.argv[1] if len(sys.argv) > 1 else "lbx"))
    given = sys.argv[2:]
    changes, reads, files = (int(word) for word in (given + ["10000", "10000", "80000"][len(given):])[:3])
    with tempfile.TemporaryDirectory(prefix="lbx-scale-", dir=os.environ.get("TMPDIR", "/dev/shm")) as top:
        home = os.path.join(top, "home")
        os.makedirs(os.path.join(home, ".config", "lbx"))
        with open(os.path.join(home, ".config", "lbx", "config.toml"), "w", encoding="utf-8") as file:
            file.write('loosen = ["durable"]\n')
        with open(os.path.join(home, ".gitconfig"), "w", encoding="utf-8") as file:
            file.write("[user]\n\tname = bench\n\temail = bench@localhost\n")
        after_reads(lbx, top, home, reads)
        in_a_tree(lbx, top, home, files)
        after_changes(lbx, top, home, changes)
        after_changes_of_many_files(lbx, top, home, changes)


if __name__ == "__main__":
    main()
