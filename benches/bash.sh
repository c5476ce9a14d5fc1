#!/bin/bash
# What a confined command costs over plain `bash -c true`: by backend in a small workspace, and by the
# number of files, plain (two scans) and as a transaction that changes 10 files (no scan).
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
import json, os, statistics, subprocess, sys, time

lbx, runs, top = sys.argv[1], int(sys.argv[2]), sys.argv[3]
null = os.open(os.devnull, os.O_RDWR)
environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": f"{top}/home"}
os.mkdir(environment["HOME"])


def call(arguments, folder):
    """Milliseconds from before the process is made until after its end."""
    os.chdir(folder)
    start = time.perf_counter_ns()
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
    process = os.posix_spawnp(arguments[0], arguments, environment, file_actions=actions)
    _, status = os.waitpid(process, 0)
    took = (time.perf_counter_ns() - start) / 1e6
    if status != 0:
        sys.exit(f"{arguments}: status {os.waitstatus_to_exitcode(status)}")
    return took


def workspace(files):
    """A committed repository with so many files, 20 a folder."""
    folder = f"{top}/w{files}"
    for number in range(files):
        if number % 20 == 0:
            os.makedirs(f"{folder}/d{number // 400}/e{number // 20}", exist_ok=True)
        with open(f"{folder}/d{number // 400}/e{number // 20}/f{number}.txt", "w") as file:
            file.write(f"{number}\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=b", "-c", "user.email=b", "-c", "core.fsync=none"]
        subprocess.run(["git", *identity, *command], cwd=folder, env=environment, check=True)
    return folder


def measure(name, arguments, folder, plain):
    """Prints median and least of the runs, and what is more than plain bash."""
    call(arguments, folder)
    took = [call(arguments, folder) for _ in range(runs)]
    median = statistics.median(took)
    print(f"{name:44} median {median:7.1f} ms  least {min(took):7.1f}  over bash {median - plain:7.1f}")


small = workspace(100)
plain = statistics.median(call(["bash", "-c", "true"], small) for _ in range(runs))
print(f"{'plain bash -c true':44} median {plain:7.1f} ms")
listed = json.loads(subprocess.check_output([lbx, "bash", "--backends"], cwd=small, env=environment))
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
