#!/bin/bash
# Cost of a confined command over plain `bash -c true`: by backend in a small workspace, and by number of
# files, both plain (two scans) and as a transaction that changes 10 files (no scan).
#
# Usage: benches/bash.sh [LBX [RUNS [FOLDER]]]    (default: the release build, 20 runs, /dev/shm)
set -euo pipefail
. "$(dirname "$0")/common.bash"
find_lbx "${1:-}"
runs=${2:-20}
folder=$(mktemp -d -p "${3:-/dev/shm}")
trap 'rm -rf "$folder"' EXIT

heading ""
python3 - "$lbx" "$runs" "$folder" <<'PYTHON'
import json, os, statistics, subprocess, sys

import common

lbx, runs, top = sys.argv[1], int(sys.argv[2]), sys.argv[3]
home = f"{top}/home"
os.mkdir(home)


def workspace(files):
    """A committed repository with so many files, 20 a folder."""
    folder = f"{top}/w{files}"
    for number in range(files):
        if number % 20 == 0:
            os.makedirs(f"{folder}/d{number // 400}/e{number // 20}", exist_ok=True)
        with open(f"{folder}/d{number // 400}/e{number // 20}/f{number}.txt", "w") as file:
            file.write(f"{number}\n")
    common.commit_all(folder, home)
    return folder


def measure(name, arguments, folder, plain):
    """Prints median and least of the runs, and what is more than plain bash."""
    common.call(arguments, folder, home)
    took = [common.call(arguments, folder, home) for _ in range(runs)]
    median = statistics.median(took)
    print(f"{name:44} median {median:7.1f} ms  least {min(took):7.1f}  over bash {median - plain:7.1f}")


small = workspace(100)
plain = statistics.median(common.call(["bash", "-c", "true"], small, home) for _ in range(runs))
print(f"{'plain bash -c true':44} median {plain:7.1f} ms")
listed = json.loads(subprocess.check_output([lbx, "bash", "--backends"], cwd=small, env=common.environment(home)))
for backend in listed["data"]["backends"]:
    if backend["works"]:
        name = backend["name"]
        measure(name, [lbx, "bash", "--set", f"bash.backend={name}", "true"], small, plain)
for files in (100, 10_000, 90_000):
    folder = small if files == 100 else workspace(files)
    base = [lbx, "bash", "--set", "bash.backend=namespaces"]
    measure(f"namespaces, {files} files", [*base, "true"], folder, plain)
    change = "for i in 0 1 2 3 4 5 6 7 8 9; do echo $RANDOM > d0/e0/f$i.txt; done"
    measure(f"a transaction of 10 files in {files}", [*base, "--transaction", change], folder, plain)
    measure(f"the same, dry run, in {files}", [*base, "--dry-run", change], folder, plain)
PYTHON
