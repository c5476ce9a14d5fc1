#!/usr/bin/env python3
"""Times writers of different files that run at once, each a process for each change, as ratios to one writer.

usage: benches/writers.py [LBX] [SECONDS] [BASELINE]

Every writer has a file and a session of its own, and appends a line again and again. The numbers of writers take turns,
ROUNDS times, each for SECONDS / ROUNDS. A row shows changes a second, the median of the ratios to one writer, and the
median, 99th percentile and longest wait for an answer in milliseconds. With BASELINE, another binary, each pass also
runs that one; its rows are marked.
"""

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time

import common

WRITERS = (1, 2, 8, 32)
ROUNDS = 4
LINES = 200


def make(folder, home):
    """Makes a repository with a file for each writer."""
    for number in range(max(WRITERS)):
        with open(os.path.join(folder, f"f{number}.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"line {line} of {number}\n" for line in range(LINES))
    common.commit_all(folder, home)


class Writer(threading.Thread):
    """Appends to its file until the time is over."""

    def __init__(self, lbx, number, home, end):
        super().__init__()
        self.words = [lbx, "append", f"f{number}.txt", "--content", "x\n", "--session", f"w{number}"]
        self.variables = common.environment(home)
        self.end, self.waits, self.failures = end, [], 0

    def run(self):
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
        while time.perf_counter() < self.end:
            start = time.perf_counter_ns()
            process = os.posix_spawn(self.words[0], self.words, self.variables, file_actions=actions)
            _, status = os.waitpid(process, 0)
            self.waits.append((time.perf_counter_ns() - start) / 1e6)
            self.failures += status != 0
        os.close(null)


def together(lbx, count, home, seconds):
    """Changes a second of so many writers, and how long each waited."""
    start = time.perf_counter()
    writers = [Writer(lbx, number, home, start + seconds) for number in range(count)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    waits = [wait for writer in writers for wait in writer.waits]
    if failures := sum(writer.failures for writer in writers):
        sys.exit(f"{failures} of {len(waits)} calls by {count} writers failed")
    return len(waits) / (time.perf_counter() - start), waits


def main():
    """Prints the table."""
    words = sys.argv[1:]
    binaries = [os.path.realpath(shutil.which(word)) for word in (words[:1] or ["lbx"]) + words[2:3]]
    seconds = float(words[1]) if len(words) > 1 else 16
    with tempfile.TemporaryDirectory(prefix="lbx-writers-", dir=os.environ.get("TMPDIR")) as top:
        home = os.path.join(top, "home")
        os.makedirs(home)
        rates, waits = {}, {}
        for which in range(len(binaries)):
            folder = os.path.join(top, str(which))
            os.makedirs(folder)
            make(folder, home)
        for turn in range(ROUNDS + 1):
            for which, lbx in enumerate(binaries):
                os.chdir(os.path.join(top, str(which)))
                for count in WRITERS:
                    os.sync()
                    rate, its_waits = together(lbx, count, home, seconds / ROUNDS if turn else 0.2)
                    if turn:  # the first one makes the baselines of the sessions
                        rates.setdefault((which, count), []).append(rate)
                        waits.setdefault((which, count), []).extend(its_waits)
        print(f"{'writers':>10} {'changes/s':>10} {'ratio':>7} {'median':>8} {'99 %':>8} {'longest':>8}")
        for (which, count), its_rates in rates.items():
            ratio = statistics.median(rate / one for rate, one in zip(its_rates, rates[which, 1]))
            ordered = sorted(waits[which, count])
            late = ordered[int(len(ordered) * 0.99)]
            mark = " (baseline)" if which else ""
            print(f"{count:10} {statistics.median(its_rates):10.0f} {ratio:7.2f} {statistics.median(ordered):8.2f} "
                  f"{late:8.2f} {ordered[-1]:8.2f}{mark}")


if __name__ == "__main__":
    main()
