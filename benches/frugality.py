#!/usr/bin/env python3
"""Bytes of each tool's typical answer, next to the MCP reference filesystem server's.

Makes the same calls, in the same small project, of `lbx` (JSON, --text, and over MCP) and of
@modelcontextprotocol/server-filesystem over stdio, and prints a Markdown table. The bytes are those
of the answer: the one JSON object or the text on stdout, and over MCP the `result` of the message.

usage: benches/frugality.py LBX SERVER
  LBX     the binary, such as target/release/lbx
  SERVER  the reference server's program, as `npm install @modelcontextprotocol/server-filesystem`
          puts it into node_modules/.bin/mcp-server-filesystem
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = "".join(
    f"/// Adds {n} to a number.\npub fn add_{n}(value: u64) -> u64 {{\n    value + {n}\n}}\n\n" for n in range(60)
)


def project(folder):
    """A project of 41 files."""
    for number in range(40):
        path = os.path.join(folder, "src", f"part_{number % 4}", f"module_{number}.rs")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(SOURCE)
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write("# Project\n\n## Use\n\nRun it.\n")
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)


class Server:
    """An MCP server over stdio."""

    def __init__(self, command):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.number = 0
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        """Sends one message."""
        self.process.stdin.write((json.dumps(message) + "\n").encode())
        self.process.stdin.flush()

    def ask(self, method, params):
        """The result of a request."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self.number:
                return message["result"]

    def call(self, tool, arguments):
        """Bytes of the result of a call, and of the text in it."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            sys.exit(f"{tool}: {result}")
        texts = [block["text"] for block in result["content"] if block["type"] == "text"]
        return size(result), sum(len(text.encode()) for text in texts)

    def end(self):
        """Ends the server."""
        self.process.stdin.close()
        self.process.wait(timeout=20)


def size(value):
    """Bytes of a value as JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def calls(root):
    """Name of the call, tool and request of lbx, tool and arguments of the reference server."""
    path = "src/part_1/module_1.rs"
    full = os.path.join(root, path)
    several = ["src/part_1/module_5.rs", "src/part_2/module_2.rs", "README.md"]
    old, new = "    value + 7\n}", "    value + 8\n}"
    return [
        ("read", "read", {"path": path}, "read_text_file", {"path": full}),
        ("read, first 10 lines", "read", {"path": path, "limit": 10}, "read_text_file", {"path": full, "head": 10}),
        ("read, last 10 lines", "read", {"path": path, "offset": -10}, "read_text_file", {"path": full, "tail": 10}),
        ("read of three", "read", {"paths": several}, "read_multiple_files", {"paths": [os.path.join(root, one) for one in several]}),
        ("edit", "edit", {"path": path, "old_string": old, "new_string": new},
         "edit_file", {"path": full, "edits": [{"oldText": old, "newText": new}]}),
        ("write, new", "write", {"path": "new.txt", "content": "new\n"}, "write_file", {"path": os.path.join(root, "new.txt"), "content": "new\n"}),
        ("write, over", "write", {"path": "new.txt", "content": "newer\n"}, "write_file", {"path": os.path.join(root, "new.txt"), "content": "newer\n"}),
        ("list", "ls", {"path": "src/part_1"}, "list_directory", {"path": os.path.join(root, "src/part_1")}),
        ("list with sizes", "ls", {"path": "src/part_1", "long": True}, "list_directory_with_sizes", {"path": os.path.join(root, "src/part_1")}),
        ("tree", "ls", {"path": "src", "recursive": True}, "directory_tree", {"path": os.path.join(root, "src")}),
        ("tree, paths alone", "glob", {"pattern": "src/**"}, "directory_tree", {"path": os.path.join(root, "src")}),
        ("search by name", "glob", {"pattern": "module_1*.rs"}, "search_files", {"path": root, "pattern": "**/module_1*.rs"}),
        ("move", "move", {"from": "new.txt", "to": "moved.txt"},
         "move_file", {"source": os.path.join(root, "new.txt"), "destination": os.path.join(root, "moved.txt")}),
        ("info of one file", "ls", {"path": path, "long": True}, "get_file_info", {"path": full}),
    ]


def by_command(lbx, root, form):
    """Bytes on stdout of each call, in a process of its own."""
    sizes = []
    for _, tool, request, _, _ in calls(root):
        words = [lbx, tool, "--json", json.dumps(request), *form]
        done = subprocess.run(words, cwd=root, capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{words}: {done.stdout} {done.stderr}")
        sizes.append(len(done.stdout))
    return sizes


def in_project(measure):
    """What is measured in a project of its own."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="lbx-frugality-"))
    try:
        project(folder)
        return measure(folder)
    finally:
        shutil.rmtree(folder)


def by_server(command, is_lbx):
    """Bytes of the result of each call to a server, and of the text in it."""

    def measure(root):
        server = Server([word.replace("ROOT", root) for word in command])
        listed = size(server.ask("tools/list", {}))
        sizes = [server.call(*(call[1:3] if is_lbx else call[3:5])) for call in calls(root)]
        server.end()
        return sizes, listed

    return in_project(measure)


def main():
    """Prints the table."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    lbx, reference = (os.path.realpath(word) for word in sys.argv[1:])
    as_json = in_project(lambda root: by_command(lbx, root, []))
    as_text = in_project(lambda root: by_command(lbx, root, ["--text"]))
    served, listed = by_server([lbx, "mcp", "--workspace", "ROOT"], True)
    served_text, listed_text = by_server([lbx, "mcp", "--workspace", "ROOT", "--results", "text"], True)
    theirs, listed_theirs = by_server([reference, "ROOT"], False)
    print("| call | lbx JSON | lbx --text | lbx MCP | lbx MCP, text | reference MCP | its text alone |")
    print("|---|---|---|---|---|---|---|")
    for at, call in enumerate(calls("/")):
        ours = [as_json[at], as_text[at], served[at][0], served_text[at][0]]
        print("|", " | ".join(str(cell) for cell in [call[0], *ours, *theirs[at]]), "|")
    print("| tools/list | – | – |", " | ".join(str(cell) for cell in [listed, listed_text, listed_theirs]), "| – |")


main()
