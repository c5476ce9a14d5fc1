#!/bin/bash
# Cost of durability: changes of each kind on a disk, compared with the same in memory (tmpfs), where a sync is
# free. The difference is the cost of the syncs. For comparison, it measures the minimum for one file that survives
# a power failure: write a temporary file, sync, rename, sync the folder. It also measures the bare system calls of
# a change with its journal entry and its commit, without any computation. Then it measures an overwrite and that
# minimum again, while another program writes and syncs without pause.
# Counts and lists the syncs of an overwrite with strace, if that is installed.
#
# Usage: benches/durability.sh [LBX [RUNS [FOLDER]]]    (default: the release build, 40 runs, /var/tmp)
set -euo pipefail
. "$(dirname "$0")/common.bash"
find_lbx "${1:-}"
runs=${2:-40}
disk=${3:-/var/tmp}
on_disk=$(mktemp -d -p "$disk")
in_memory=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$on_disk" "$on_disk.neighbour" "$in_memory"' EXIT

heading ""
echo "disk:    $(stat -f -c %T "$on_disk") at $disk; memory: $(stat -f -c %T "$in_memory")"
# Beyond 4 MiB a small change syncs its files one by one; an ext4 without a journal needs more syncs.
sync
device=$(df --output=source "$on_disk" | tail -n 1)
journal=$(cat "/sys/fs/ext4/${device##*/}/journal_task" 2>/dev/null || echo "not known")
waiting=$(awk '/^(Dirty|Writeback):/ { sum += $2 } END { print sum }' /proc/meminfo)
echo "journal: thread $journal; $waiting kB wait to be written"

python3 - "$lbx" "$runs" "$on_disk" "$in_memory" <<'PYTHON'
import ctypes, os, signal, statistics, sys, time

import common

lbx, runs, folders = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


def floor(folder, number):
    """One file, durably replaced, by nothing but the system."""
    os.chdir(folder)
    start = time.perf_counter_ns()
    with open("aside", "wb") as file:
        file.write(b"%d\n" % number * 100)
        file.flush()
        os.fsync(file.fileno())
    os.rename("aside", "floor.txt")
    opened = os.open(".", os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)
    return (time.perf_counter_ns() - start) / 1e6


def steps(folder, number):
    """What a change of one file with its entry and its commit writes, syncs and renames, and nothing else."""
    os.chdir(folder)
    system = ctypes.CDLL(None, use_errno=True)
    folders = ["target", "staging", "open", "done", *[f"objects{part}" for part in range(4)]]
    for name in folders:
        os.makedirs("steps/" + name, exist_ok=True)
    begin = os.open("steps", os.O_RDONLY)
    appended = [os.open(f"steps/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("log", "session", "audit")]
    start = time.perf_counter_ns()
    files = []
    for name in ["staged", "entry", *[f"object{part}" for part in range(4)]]:
        files.append(os.open(f"steps/staging/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.write(files[-1], b"%d\n" % number * 100)
    system.syncfs(begin)
    os.fsync(files[1])
    os.rename("steps/staging/entry", "steps/open/entry")
    os.rename("steps/staging/staged", "steps/target/file")
    for part in range(4):
        os.rename(f"steps/staging/object{part}", f"steps/objects{part}/{number}")
    for file in appended:
        os.write(file, b"x" * 200)
    system.syncfs(begin)
    os.fsync(appended[-1])
    os.rename("steps/open/entry", f"steps/done/{number}")
    for file in files:
        os.close(file)
    took = (time.perf_counter_ns() - start) / 1e6
    for file in [begin, *appended]:
        os.close(file)
    return took


def prepare(folder):
    """A repository of 200 files."""
    for number in range(200):
        os.makedirs(f"{folder}/d{number % 10}", exist_ok=True)
        with open(f"{folder}/d{number % 10}/f{number}.txt", "w") as file:
            file.write("line\n" * 50)
    common.commit_all(folder, folder)
    common.call([lbx, "read", "d0/f0.txt"], folder, folder)
    common.call([lbx, "append", "d0/f0.txt", "--content", "x\n"], folder, folder)


def change(kind, number):
    """The arguments of a change."""
    if kind == "write over a file":
        return ["write", "d0/f0.txt", "--content", f"{number}\n" * 100]
    if kind == "write a new file":
        return ["write", f"d1/new{number}.txt", "--content", f"{number}\n"]
    if kind == "append":
        return ["append", "d2/f2.txt", "--content", f"{number}\n"]
    if kind == "patch 5 files":
        adds = "".join(f"*** Add File: p/{number}-{part}.txt\n+{number}\n" for part in range(5))
        return ["patch", "--patch", f"*** Begin Patch\n{adds}*** End Patch\n"]
    if kind == "delete":
        return ["delete", f"d1/new{number}.txt"]
    return ["undo"]


for folder in folders:
    prepare(folder)
kinds = ["write over a file", "write a new file", "append", "patch 5 files", "delete", "undo"]
print(f"\n{'':<20}{'on disk':>10}{'in memory':>12}{'syncs add':>12}   (ms, medians of {runs} runs in turn)")
for kind in kinds:
    times = ([], [])
    for number in range(-3, runs):  # the first three to warm up
        for folder, all_times in zip(folders, times):
            took = common.call([lbx] + change(kind, number), folder, folder)
            if number >= 0:
                all_times.append(took)
    disk, memory = (statistics.median(all_times) for all_times in times)
    print(f"{kind:<20}{disk:>10.2f}{memory:>12.2f}{disk - memory:>12.2f}")
for name, measured, what in [
    ("the least", floor, "one file, written aside, synced, renamed, its folder synced"),
    ("the steps alone", steps, "six files and a wave, their renames and a wave: what a write over a file asks of the disk"),
]:
    disk, memory = (statistics.median(measured(folder, number) for number in range(runs)) for folder in folders)
    print(f"{name:<20}{disk:>10.2f}{memory:>12.2f}{disk - memory:>12.2f}   {what}")


def disturb(path):
    """Writes and syncs until it is ended: 1 MiB at a time, as a build or a database does."""
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        while True:
            file.seek(0)
            file.write(block)
            file.flush()
            os.fsync(file.fileno())


neighbour = os.fork()
if neighbour == 0:
    disturb(folders[0] + ".neighbour")
try:
    # Alternate, so that both use the same disk state.
    changes, leasts = [], []
    for number in range(-3, runs):
        took = common.call([lbx] + change("append", number), folders[0], folders[0])
        least = floor(folders[0], number)
        if number >= 0:
            changes.append(took)
            leasts.append(least)
finally:
    os.kill(neighbour, signal.SIGKILL)
    os.waitpid(neighbour, 0)
    os.unlink(folders[0] + ".neighbour")
append, least = statistics.median(changes), statistics.median(leasts)
print(f"\nwith a neighbour that syncs without pause: append {append:.2f}, the least {least:.2f}: {append / least:.1f} times")
PYTHON

if command -v strace >/dev/null; then
    echo
    cd "$on_disk"
    trace() { HOME=$on_disk strace -f -y -qq -o "$on_disk.trace" "$@" "$lbx" write d0/f0.txt --content "last $RANDOM" >/dev/null; }
    trace
    # Renames between two syncs split them into waves.
    awk '/ (fsync|fdatasync|syncfs)\(/ { syncs++; if (!in_wave) waves++; in_wave = 1 }
        / rename/ { in_wave = 0 } / clone3?\(/ { threads++ } !/ resumed>/ { calls++ }
        END { printf "a write over a file: %d syncs in %d waves, %d threads, %d system calls\n", syncs, waves, threads, calls }' \
        "$on_disk.trace"
    echo "what it syncs and renames, in order:"
    trace -e trace=fsync,fdatasync,syncfs,rename,renameat,renameat2
    sed -E "s|$on_disk/?||g; s/^[0-9]+ +/  /; s/ += 0$//" "$on_disk.trace"
    rm -f "$on_disk.trace"
fi
