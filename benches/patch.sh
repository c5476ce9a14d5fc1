#!/bin/bash
# Measures `lbx patch` compared with `git apply`: 10,000 hunks in a file of 100,000 lines, and a patch over
# 5,000 files. Prints medians of alternating runs, their ratio, and the largest memory of a run.
#
# Usage: benches/patch.sh [LBX [RUNS]]    (default: the release build, 5 runs)
#
# lbx is measured twice: in a workspace with its own repository for snapshots, as in normal use, and in
# a dry run, which reads, checks and computes everything and writes nothing (compared with `git apply --check`).
# `git apply` syncs nothing; lbx has every old and new byte on disk before it answers.
set -euo pipefail
. "$(dirname "$0")/common.bash"
find_lbx "${1:-}"
runs=${2:-5}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

heading "$(git --version)"

python3 - "$lbx" "$runs" "$scratch" <<'PYTHON'
import hashlib, json, os, resource, shutil, statistics, subprocess, sys, time

lbx, runs, scratch = sys.argv[1], int(sys.argv[2]), sys.argv[3]
environment = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": scratch, "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@localhost",
    "GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@localhost",
}


def call(arguments, folder, patch):
    """Wall and processor seconds, and the largest memory in MB."""
    with open(patch, "rb") as stdin:
        start = time.perf_counter()
        process = subprocess.Popen(arguments, cwd=folder, env=environment, stdin=stdin,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{arguments[:3]}: status {process.returncode}: {error[-500:]}")
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def git(folder, *arguments):
    output = subprocess.run(["git", "-C", folder, *arguments], env=environment, check=True, stdout=subprocess.PIPE)
    return output.stdout


def prepare(name, before, after):
    """A repository with one tree, and the patch to the other."""
    root = os.path.join(scratch, name)
    for path, text in before.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w") as file:
            file.write(text)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "before")
    for path, text in after.items():
        with open(os.path.join(root, path), "w") as file:
            file.write(text)
    patch = os.path.join(scratch, name + ".patch")
    with open(patch, "wb") as file:
        file.write(git(root, "diff", "--full-index", "--binary"))
    git(root, "checkout", "-q", ".")
    return root, patch


def compare(title, root, patch, paths):
    proof = {path: hashlib.sha256(open(os.path.join(root, path), "rb").read()).hexdigest() for path in paths}
    request = os.path.join(scratch, "request.json")
    with open(request, "w") as file, open(patch) as text:
        json.dump({"patch": text.read(), "expected_sha256_by_path": proof}, file)
    with open(request) as file:
        trial = dict(json.load(file), dry_run=True)
    dry = os.path.join(scratch, "dry.json")
    with open(dry, "w") as file:
        json.dump(trial, file)
    everything = {
        "git apply --check": ["git", "apply", "--check"], "lbx patch --dry-run": [lbx, "patch"],
        "git apply": ["git", "apply"], "lbx patch": [lbx, "patch"],
    }
    times = {name: [] for name in everything}
    for number in range(runs + 1):
        for name, arguments in everything.items():
            stdin = patch if name.startswith("git") else dry if "dry" in name else request
            took = call(arguments, root, stdin)
            git(root, "checkout", "-q", ".")
            if number > 0:  # the first is to warm up
                times[name].append(took)
    print(f"\n{title}: {os.path.getsize(patch)} bytes of patch")
    medians = {}
    for name, all_times in times.items():
        wall, cpu, memory = (statistics.median(column) for column in zip(*all_times))
        medians[name] = wall, cpu
        print(f"  {name:<20} {wall * 1000:9.1f} ms   processor {cpu * 1000:9.1f} ms   {memory:7.1f} MB   {runs} runs")
    for ours, theirs in (("lbx patch --dry-run", "git apply --check"), ("lbx patch", "git apply")):
        ratios = [mine / other for mine, other in zip(medians[ours], medians[theirs])]
        print(f"  {ours} / {theirs}: {ratios[0]:.2f}, processor {ratios[1]:.2f}")


lines = [f"line {number} of many, value {number % 1000}" for number in range(100_000)]
changed = [f"changed {line}" if number % 10 == 4 else line for number, line in enumerate(lines)]
root, patch = prepare("long", {"long.txt": "\n".join(lines) + "\n"}, {"long.txt": "\n".join(changed) + "\n"})
compare("10,000 hunks in 100,000 lines", root, patch, ["long.txt"])

text = "".join(f"line {number}\n" for number in range(40))
before = {f"d{number % 50}/e{number // 50 % 10}/f{number}.txt": f"file {number}\n{text}" for number in range(5000)}
after = {path: text.replace("line 20\n", "line 20, changed\n") for path, text in before.items()}
root, patch = prepare("wide", before, after)
compare("5,000 files", root, patch, list(before))
PYTHON
