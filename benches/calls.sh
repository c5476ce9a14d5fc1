#!/bin/bash
# Cost of one call: `lbx read` of a 10 kB file compared with `cat`, and `lbx write` in a repository of
# 100 files compared with one of 50,000. Prints medians of alternating runs, and their ratios.
#
# Usage: benches/calls.sh [LBX [RUNS]]    (default: the release build, 40 runs)
set -euo pipefail
. "$(dirname "$0")/common.bash"
find_lbx "${1:-}"
runs=${2:-40}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

heading ""

python3 - "$lbx" "$runs" "$scratch" <<'PYTHON'
import os, statistics, sys

import common

lbx, runs, scratch = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def call(arguments, folder):
    """Milliseconds."""
    return common.call(arguments, folder, scratch)


def compare(title, one, other):
    """Runs both in turn, and prints the medians and their ratio."""
    (name, run), (other_name, other_run) = one, other
    for number in range(3):  # to warm up
        run(f"w{number}"), other_run(f"w{number}")
    times, other_times = [], []
    for number in range(runs):
        times.append(run(number))
        other_times.append(other_run(number))
    median, other_median = statistics.median(times), statistics.median(other_times)
    print(f"\n{title}")
    for label, value, all_times in ((name, median, times), (other_name, other_median, other_times)):
        spread = statistics.quantiles(all_times, n=4)
        print(f"  {label:<24} median {value:7.2f} ms   quartiles {spread[0]:.2f} to {spread[2]:.2f}   {len(all_times)} runs")
    print(f"  ratio {median / other_median:.2f}")


def repository(name, files):
    """A git repository with that many committed files in folders of 100."""
    root = os.path.join(scratch, name)
    for number in range(files):
        folder = os.path.join(root, f"d{number // 10000}", f"e{number // 100 % 100}")
        if number % 100 == 0:
            os.makedirs(folder)
        with open(os.path.join(folder, f"f{number % 100}.txt"), "w") as file:
            file.write(f"file {number}\n")
    common.commit_all(root, scratch)
    return root


small = repository("small", 100)
with open(os.path.join(small, "ten.txt"), "w") as file:
    file.write("a line of forty bytes, newline included\n" * 250)
call([lbx, "read", "ten.txt"], small)
compare(
    "read of a file of 10 kB",
    ("lbx read", lambda _: call([lbx, "read", "ten.txt"], small)),
    ("cat", lambda _: call(["cat", "ten.txt"], small)),
)

large = repository("large", 50_000)


def write(root):
    return lambda number: call([lbx, "write", "d0/e0/new.txt", "--content", f"text {number}\n"], root)


for root in (large, small):
    # The session's first call, which differs from the others.
    call([lbx, "write", "d0/e0/new.txt", "--content", "first\n"], root)
compare(
    "write in a repository",
    ("of 50,000 files", write(large)),
    ("of 100 files", write(small)),
)
PYTHON
