#!/usr/bin/env python3
"""MCP file servers side by side: time to start, memory, calls a second, bytes of an answer.

Starts each server in a fresh copy of the same small git repository, makes the same calls over stdio, and prints a
Markdown table. lbx runs three times: with its own tools, as `--dialect mcp-filesystem`, and with that dialect and no
snapshots. Its edits are checked against what was read, backed up, journaled and synced to the disk before the answer;
the others do none of this. "sync alone" is the time of one write and two fsyncs on this disk, for comparison.

usage: benches/servers.py LBX [NAME=PROGRAM…]
  LBX           the binary, such as target/release/lbx
  NAME=PROGRAM  another server that has read_text_file and edit_file and takes the allowed folder as its argument:
                npm=target/clients/node_modules/.bin/mcp-server-filesystem rust=rust-mcp-filesystem
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

STARTS = 9
CALLS = 300
EDITS = 60
AT_ONCE = 16
LINE = "    let value = compute(input, 12345);\n"
# Decimals of each column.
DIGITS = [1, 1, 2, 0, 2, 0, 0, 0, 0]
FILES = [f"part_{number}.rs" for number in range(AT_ONCE)]


def project(folder):
    """A git repository with files of 10 kB."""
    for name in FILES:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("count = 0\n" + LINE * (10_000 // len(LINE)))
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)


class Server:
    """An MCP server over stdio."""

    def __init__(self, command, folder):
        begin = time.perf_counter()
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.number = 0
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.answer(self.begin("initialize", client))
        self.start = time.perf_counter() - begin
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        """Sends a message."""
        self.process.stdin.write((json.dumps(message) + "\n").encode())
        self.process.stdin.flush()

    def begin(self, method, params):
        """Sends a request; answers its id."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return self.number

    def next(self):
        """The next answer: its message, and its bytes."""
        while True:
            line = self.process.stdout.readline()
            message = json.loads(line)
            if "id" in message and "method" not in message:
                return message, len(line)

    def answer(self, number):
        """The answer to the one request that is open."""
        message, size = self.next()
        assert message["id"] == number and "error" not in message, message
        assert not message["result"].get("isError"), message
        return message["result"], size

    def call(self, tool, arguments):
        """Calls a tool; answers the bytes of the message."""
        return self.answer(self.begin("tools/call", {"name": tool, "arguments": arguments}))[1]

    def memory(self):
        """Resident memory in MB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

    def close(self):
        """Ends it."""
        self.process.stdin.close()
        self.process.wait()


def native_calls():
    """lbx's own tools."""
    edit = lambda path, old, new: ("edit", {"path": path, "old_string": old, "new_string": new})
    return lambda path: ("read", {"path": path}), edit


def filesystem_calls(folder):
    """The tools of the reference server."""
    full = lambda path: os.path.join(folder, path)
    edit = lambda path, old, new: (
        "edit_file",
        {"path": full(path), "edits": [{"oldText": old, "newText": new}]},
    )
    return lambda path: ("read_text_file", {"path": full(path)}), edit


def pipelined(server, calls):
    """Calls a second with several open at once."""
    begin, waiting = time.perf_counter(), 0
    for tool, arguments in calls:
        server.begin("tools/call", {"name": tool, "arguments": arguments})
        waiting += 1
        if waiting == AT_ONCE:
            message, _ = server.next()
            assert not message["result"].get("isError"), message
            waiting -= 1
    for _ in range(waiting):
        server.next()
    return len(calls) / (time.perf_counter() - begin)


def measure(command, folder, calls):
    """A row of the table."""
    starts = []
    for _ in range(STARTS):
        server = Server(command, folder)
        starts.append(server.start * 1000)
        server.close()
    server = Server(command, folder)
    listed = len(json.dumps(server.answer(server.begin("tools/list", {}))[0]))
    time.sleep(0.5)
    idle = server.memory()
    read, edit = calls
    size = [server.call(*read(name)) for name in FILES][0]
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        server.call(*read(FILES[0]))
        times.append((time.perf_counter() - begin) * 1000)
    reads = pipelined(server, [read(FILES[number % AT_ONCE]) for number in range(CALLS)])
    edits, edit_size = [], 0
    for number in range(EDITS):
        begin = time.perf_counter()
        edit_size = server.call(*edit(FILES[0], f"count = {number}\n", f"count = {number + 1}\n"))
        edits.append((time.perf_counter() - begin) * 1000)
    # Edits of one file follow each other only in the next pass.
    rounds = [edit(name, "count = 0\n", "count = 1\n") for name in FILES[1:]]
    at_once = pipelined(server, rounds)
    server.close()
    row = [statistics.median(starts), idle, statistics.median(times), reads, statistics.median(edits), at_once]
    return [*row, size, edit_size, listed]


def sync_alone(folder):
    """Milliseconds of a write next to a file, its fsync, a rename, and the folder's fsync."""
    times = []
    directory = os.open(folder, os.O_RDONLY)
    for number in range(40):
        begin = time.perf_counter()
        with open(os.path.join(folder, "aside"), "wb") as file:
            file.write(b"x" * 10_000)
            file.flush()
            os.fsync(file.fileno())
        os.rename(os.path.join(folder, "aside"), os.path.join(folder, f"synced_{number % 4}"))
        os.fsync(directory)
        times.append((time.perf_counter() - begin) * 1000)
    os.close(directory)
    return statistics.median(times)


def main():
    """Prints the table."""
    lbx, others = os.path.abspath(sys.argv[1]), [word.split("=", 1) for word in sys.argv[2:]]
    dialect = [lbx, "mcp", "--dialect", "mcp-filesystem"]
    servers = [("lbx", [lbx, "mcp"], False), ("lbx, as the reference", dialect, True)]
    servers.append(("the same, no snapshots", [*dialect, "--set", "snapshot.enabled=false"], True))
    for name, program in others:
        path = os.path.abspath(program)
        flags = ["--allow-write"] if name == "rust" else []
        servers.append((name, [path, *flags, "FOLDER"], True))
    # Only the user's own file lets a flag switch the snapshots off.
    user = tempfile.TemporaryDirectory()
    os.mkdir(os.path.join(user.name, "lbx"))
    with open(os.path.join(user.name, "lbx", "config.toml"), "w", encoding="utf-8") as file:
        file.write('loosen = ["snapshot.enabled"]\n')
    os.environ["XDG_CONFIG_HOME"] = user.name
    head = "server | start ms | idle MB | read ms | reads/s at once | edit ms | edits/s at once | read B | edit B | list B"
    print(f"| {head} |\n|{'---|' * 10}")
    with tempfile.TemporaryDirectory() as base:
        for number, (name, command, is_reference) in enumerate(servers):
            folder = os.path.join(base, str(number))
            os.mkdir(folder)
            project(folder)
            calls = filesystem_calls(folder) if is_reference else native_calls()
            row = measure([word.replace("FOLDER", folder) for word in command], folder, calls)
            cells = [f"{value:.{digits}f}" for value, digits in zip(row, DIGITS)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
            shutil.rmtree(folder)
        print(f"\nsync alone: {sync_alone(base):.2f} ms")


main()
