#!/usr/bin/env python3
"""Times the hooks of a client where nothing changed, next to the start of the program and `git status`.

usage: benches/hooks.py [LBX] [FILES ...]

Prints the median of each event in milliseconds, and beyond a start of the program, for workspaces with so many files.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 21


def make(folder, files):
    """Makes a repository with so many small files, a hundred in a folder."""
    for number in range(files):
        path = os.path.join(folder, f"d{number // 10000}", f"e{number // 100}")
        if number % 100 == 0:
            os.makedirs(path)
        with open(os.path.join(path, f"f{number}.txt"), "w") as file:
            file.write(f"file {number}\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *words], cwd=folder, check=True)


def main():
    lbx = shutil.which(sys.argv[1] if len(sys.argv) > 1 else "lbx")
    for files in [int(word) for word in sys.argv[2:]] or [200, 10_000, 87_000]:
        with tempfile.TemporaryDirectory() as home:
            folder = os.path.join(home, "work")
            os.makedirs(folder)
            make(folder, files)
            environment = {"PATH": os.environ["PATH"], "HOME": home, "LBX_STATE_ID": "0" * 32}

            def timed(words, text=None):
                begun = time.perf_counter()
                subprocess.run(words, cwd=folder, env=environment, input=text, capture_output=True, check=True)
                return (time.perf_counter() - begun) * 1000

            def event(name, tool=None, call="c", turn="p", **arguments):
                fields = {"hook_event_name": name, "session_id": "s", "prompt_id": turn, "tool_use_id": call}
                if tool:
                    fields |= {"tool_name": tool, "tool_input": arguments, "tool_response": {}}
                # No limit: the first look at a large workspace takes longer than a client should wait.
                words = [lbx, "hook", "claude-code", "--session", "s", "--set", "guard.timeout_ms=600000"]
                return lambda: timed(words, json.dumps(fields).encode())

            path = os.path.join(folder, "d0", "e0", "f7.txt")
            read = event("PostToolUse", "Read", file_path=path)
            work = {
                "start (lbx --version)": lambda: timed([lbx, "--version"]),
                "prompt": event("UserPromptSubmit"),
                "before Edit": event("PreToolUse", "Edit", file_path=path),
                "after Edit": event("PostToolUse", "Edit", file_path=path),
                "after Read": read,
                "before Bash, first of a turn": event("PreToolUse", "Bash", command="true"),
                "after Bash": event("PostToolUse", "Bash", command="true"),
                "end of the turn": event("Stop"),
                "git status": lambda: timed(["git", "status", "--porcelain"]),
            }
            read()
            times = {name: [] for name in work}
            for _ in range(RUNS):
                for name, run in work.items():
                    times[name].append(run())
            start = statistics.median(times["start (lbx --version)"])
            print(f"\n{files} files")
            for name, samples in times.items():
                median = statistics.median(samples)
                print(f"  {name:30} {median:8.1f} ms  {median - start:+8.1f}")


if __name__ == "__main__":
    main()
