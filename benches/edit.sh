#!/bin/bash
# Measures `lbx edit` of one line in a file of 22 MB and 700,000 lines, compared with `sed -i` of one line
# there: a session's first edit of the file (after a `read` of one line, which is not counted) and the
# ones after it. Prints medians of alternating runs, their ratio, and the largest memory of an edit.
#
# Usage: benches/edit.sh [LBX [RUNS [FOLDER]]]    (default: the release build, 15 runs, /var/tmp)
#
# `sed -i` syncs nothing; lbx has the backup, the new file and its snapshot on disk before it answers.
set -euo pipefail
. "$(dirname "$0")/common.bash"
find_lbx "${1:-}"
runs=${2:-15}
scratch=$(mktemp -d -p "${3:-/var/tmp}")
trap 'rm -rf "$scratch"' EXIT

heading "$(sed --version | head -n 1)"

python3 - "$lbx" "$runs" "$scratch" <<'PYTHON'
import os, resource, statistics, subprocess, sys

import common

lbx, runs, scratch = sys.argv[1], int(sys.argv[2]), sys.argv[3]
LINES, EDITED = 700_000, 350_000


def call(arguments):
    """Milliseconds."""
    return common.call(arguments, f"{scratch}/w", scratch)


def line(version):
    """The line that is edited."""
    return f"line {EDITED} of the file, {version}"


def edit(session, old, new):
    """One edit."""
    named = ["--session", session, "--old-string", line(old), "--new-string", line(new)]
    return call([lbx, "edit", "large.txt"] + named)


os.chdir(scratch)
os.mkdir("w")
for name in ("w/large.txt", "sed.txt"):
    with open(name, "w") as file:  # in pieces: this process's memory counts as its children's
        file.writelines(f"line {number} of the file, 0000\n" for number in range(1, LINES + 1))
os.chdir("w")
subprocess.run(["git", "init", "-q"], check=True, env=common.environment(scratch))
first, next_ones, sed = [], [], []
version = 0
for run in range(-2, runs):  # the first two to warm up
    session = f"s{run + 2}"
    took = []
    for _ in range(2):
        call([lbx, "read", "large.txt", "--session", session, "--start-line", str(EDITED), "--end-line", str(EDITED)])
        took.append(edit(session, f"{version:04}", f"{version + 1:04}"))
        version += 1
    took.append(call(["sed", "-i", f"{EDITED}s/[0-9]*$/{version:04}/", "../sed.txt"]))
    if run >= 0:
        for times, one in zip((first, next_ones, sed), took):
            times.append(one)
base = statistics.median(sed)
size = os.path.getsize("large.txt") / 1e6
print(f"\nms, medians of {runs} runs in turn, and against `sed -i`; the file has {size:.1f} MB")
for name, times in (("first edit of a session", first), ("next edit", next_ones), ("sed -i", sed)):
    median = statistics.median(times)
    print(f"{name:<26}{median:>8.1f}{median / base:>8.2f}")
memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
print(f"largest memory of a call: {memory:.0f} MB, {memory / size:.1f} times the file")
PYTHON
