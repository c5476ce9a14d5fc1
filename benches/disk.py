#!/usr/bin/env python3
"""Bytes that a change of a 20 kB file costs on disk: before `gc`, after it, and after `git gc` in a copy.

usage: benches/disk.py [LBX] [CHANGES]

Each change inserts one line at another place and replaces another, in one session of a server, undurable. The bytes are
the sizes of the files, divided by the number of changes; the time and memory of both calls come from one run each.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

import common
from scale import SESSION, Server

FILE = "src/file.txt"
FILE_BYTES = 20_000


def size(folder):
    """Bytes of the files below a folder."""
    return sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(folder) for name in names)


def sizes(folder):
    """Bytes of the objects, and of lbx's own folder."""
    return size(os.path.join(folder, ".git/objects")), size(os.path.join(folder, ".lbx"))


def run(words, folder, home):
    """Seconds and megabytes of a call."""
    os.chdir(folder)
    start = time.perf_counter()
    process = subprocess.Popen(words, env=common.environment(home), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{words}: status {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def make(lbx, folder, home, changes):
    """Makes the changes; returns the bytes before them."""
    lines = []
    while sum(map(len, lines)) < FILE_BYTES:
        lines.append(f"{len(lines):05} " + " ".join(str(len(lines) * word % 9973) for word in range(3, 9)) + "\n")
    os.makedirs(os.path.join(folder, os.path.dirname(FILE)))
    for number in range(40):
        with open(os.path.join(folder, f"src/other{number}.txt"), "w", encoding="utf-8") as file:
            file.write(f"{number}\n")
    with open(os.path.join(folder, FILE), "w", encoding="utf-8") as file:
        file.writelines(lines)
    common.commit_all(folder, home)
    before = sizes(folder)
    server = Server(lbx, folder, home, SESSION)
    server.call("read", path=FILE)
    for number in range(1, changes + 1):
        at = number * 37 % len(lines)
        old, new = lines[at], f"{number:05} " + " ".join(str(number * word % 9967) for word in range(13, 19)) + "\n"
        server.call("edit", path=FILE, old_string=old, new_string=new)
        lines[at] = new
    server.close()
    return before


def row(title, now, before, changes):
    """Prints the bytes of a change."""
    objects, own = ((one - other) / changes for one, other in zip(now, before))
    print(f"{title:12} {objects:10.0f} {own:10.0f}", flush=True)


def main():
    """Prints the table."""
    lbx = os.path.realpath(shutil.which(sys.argv[1] if len(sys.argv) > 1 else "lbx"))
    changes = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory(prefix="lbx-disk-", dir=os.environ.get("TMPDIR", "/dev/shm")) as top:
        home, folder, copy = (os.path.join(top, name) for name in ("home", "work", "copy"))
        os.makedirs(home)
        with open(os.path.join(home, ".gitconfig"), "w", encoding="utf-8") as file:
            file.write("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
        before = make(lbx, folder, home, changes)
        shutil.copytree(folder, copy, symlinks=True)
        print(f"bytes of each of {changes} changes\n{'':12} {'objects':>10} {'.lbx':>10}")
        row("as made", sizes(folder), before, changes)
        took = run([lbx, "gc"], folder, home)
        row("lbx gc", sizes(folder), before, changes)
        taken = run(["git", "gc", "-q", "--prune=now"], copy, home)
        row("git gc", sizes(copy), before, changes)
        print("\nlbx gc %.2f s, %.0f MB; git gc %.2f s, %.0f MB" % (*took, *taken))


if __name__ == "__main__":
    main()
