#!/usr/bin/env python3
"""Bytes of one session of Claude Code, with its own tools and with those of lbx.

Runs the real program twice against an endpoint on loopback that plays a script: the same tasks in the same project,
once with its own tools, once as `lbx init --client claude-code --exclusive` sets it up. Counts, as the model gets and
sends them, the input of each call and its result, and the definitions of the tools. Prints a Markdown table.

usage: benches/session.py LBX [CLIENTS] [--show]
  LBX      the binary, such as target/release/lbx
  CLIENTS  the folder that .ci/clients fills (target/clients)
  --show   also print each call with its bytes
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import common

HERE = os.path.dirname(os.path.realpath(__file__))
FILES = 8
FUNCTIONS = 24
# Lines of a function, with the blank one after it, and of the head of a file.
LENGTH, HEAD = 13, 3
OWN = ["Read", "Edit", "Write", "Glob", "Grep", "Bash", "NotebookEdit"]
NOUNS = ["weight", "length", "offset", "budget", "height", "volume"]


def function(number, total="total"):
    """Lines of a function."""
    noun = NOUNS[number % len(NOUNS)]
    return [
        f"/// Returns the {noun} of all items in the input, or an error for one that is too large.",
        f"pub fn sum_of_{noun}_{number}(input: &Input, limit: usize) -> Result<Output, Error> {{",
        f"    let mut {total} = input.first_{noun};",
        "    for (index, item) in input.items.iter().enumerate() {",
        f"        if item.{noun} > limit {{",
        f"            return Err(Error::too_large(index, item.{noun}));",
        "        }",
        f"        {total} += item.{noun} * {number};",
        "    }",
        f"    input.log.note(\"{noun}\", {total});",
        f"    Ok(Output {{ {total}, {noun}: input.first_{noun} }})",
        "}",
        "",
    ]


def source(number):
    """Lines of a file."""
    lines = [f"//! Sums of part {number}.", "use crate::{Error, Input, Output, check_limit};", ""]
    for at in range(FUNCTIONS):
        lines += function(at)
    if number % 2 == 0:
        lines += ["pub fn checked(input: &Input) -> bool {", "    check_limit(input, input.limit)", "}"]
    return lines


def start(number):
    """First line of a function."""
    return HEAD + number * LENGTH + 1


def text(lines):
    """Lines as one text."""
    return "\n".join(lines)


def tasks(root):
    """Each task: its name, the calls with Claude Code's tools, and those with lbx's."""

    def full(path):
        return os.path.join(root, path)

    def lines(first, last, new):
        return {"path": second, "start_line": first, "end_line": last, "new_string": text(new)}

    def old(old_lines, new):
        return {"file_path": full(second), "old_string": text(old_lines), "new_string": text(new)}

    first, second = "src/part_0.rs", "src/part_1.rs"
    seven, nine, three = function(7), function(9), function(3)
    new_loop = ["    let total = input.items.iter().map(|item| item.length * 7).sum();", "    check(total, limit)?;"]
    inserted = [f"    debug_assert!(limit > {at}, \"limit {at}\");" for at in range(6)]
    written = "\n".join(f"- Step {at}: check what part {at} sums, and that its limit holds." for at in range(40)) + "\n"
    command = {"command": "for part in src/*.rs; do wc -l $part; done; seq -f 'test part_%g ... ok' 30"}
    renamed = [f"src/part_{at}.rs" for at in range(FILES)]
    # After the rename.
    head = [source(0)[0], source(0)[1].replace("check_limit", "within_limit")]
    rename = {"old_string": "check_limit", "new_string": "within_limit", "replace_all": True}
    wrong = text(["    let mut total = input.first_weight;", "    for item in input.items.iter() {"])
    right = text(function(12)[2:4])
    better = text(["    let mut total = input.first_weight * 2;", function(12)[3]])
    return [
        ("find a function", [("Grep", {"pattern": "fn sum_of_length_7", "output_mode": "content", "-n": True})],
         [("grep", {"pattern": "fn sum_of_length_7"})]),
        ("list the files", [("Glob", {"pattern": "src/*.rs"})], [("glob", {"pattern": "src/*.rs"})]),
        ("read a file", [("Read", {"file_path": full(second)})], [("read", {"path": second})]),
        ("replace a body of 8 lines", [("Edit", old(seven[2:10], new_loop))],
         [("edit", lines(start(7) + 2, start(7) + 9, new_loop))]),
        ("replace a line", [("Edit", old([nine[9]], ["    input.log.note(\"all\", total);"]) | {
            "old_string": text(nine[7:10]), "new_string": text([*nine[7:9], "    input.log.note(\"all\", total);"])})],
         [("edit", lines(start(9) + 9, start(9) + 9, ["    input.log.note(\"all\", total);"]))]),
        ("delete a function", [("Edit", old(three, []) | {"old_string": text(three) + "\n"})],
         [("edit", lines(start(3), start(3) + LENGTH - 1, []))]),
        ("insert 6 lines", [("Edit", old(function(15)[1:3], [function(15)[1], *inserted, function(15)[2]]))],
         [("insert", {"path": second, "line": start(15) + 1, "content": text(inserted)})]),
        ("edit that fails, and again", [
            ("Edit", old([wrong], [better])),
            ("Read", {"file_path": full(second), "offset": start(12) - LENGTH - 5, "limit": 20}),
            ("Edit", old([text(function(12)[1:2]), right], [text(function(12)[1:2]), better]))],
         [("edit", {"path": second, "old_string": wrong, "new_string": better}),
          ("edit", lines(start(12) + 2, start(12) + 3, [better]))]),
        (f"rename in {FILES} files", [
            ("Grep", {"pattern": "check_limit", "output_mode": "content", "-n": True}),
            *[("Read", {"file_path": full(path), "offset": 2, "limit": 1}) for path in renamed if path != second],
            *[("Edit", {"file_path": full(path)} | rename) for path in renamed]],
         [("grep", {"pattern": "check_limit", "mark": True}), ("edit", {"paths": renamed} | rename)]),
        ("move a function to another file", [
            ("Read", {"file_path": full(first), "offset": 1, "limit": 5}),
            ("Edit", old(function(20), []) | {"old_string": text(function(20)) + "\n"}),
            ("Edit", {"file_path": full(first), "old_string": text(head) + "\n",
                      "new_string": text([*head, "", *function(20)])})],
         [("read", {"path": first, "limit": 5}),
          ("patch", {"patch": f"[{second}]\nCUT {start(20)}.={start(20) + LENGTH - 1}\n[{first}]\nPUT >3\n"})]),
        ("write a new file", [("Write", {"file_path": full("NOTES.md"), "content": written})],
         [("write", {"path": "NOTES.md", "content": written})]),
        ("run a command", [("Bash", command | {"description": "Count lines and test"})], [("bash", command)]),
    ]


def project(folder):
    """A repository with the sources."""
    os.makedirs(os.path.join(folder, "src"))
    for number in range(FILES):
        with open(os.path.join(folder, "src", f"part_{number}.rs"), "w", encoding="utf-8") as file:
            file.write(text(source(number)) + "\n")


def size(value):
    """Bytes of a value as JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def shown(block):
    """Bytes of a block of a message that the model gets: its text."""
    content = block.get("content", block.get("text", ""))
    return len(content.encode()) if isinstance(content, str) else sum(map(shown, content))


def run(clients, lbx, calls, root, home):
    """Plays calls in Claude Code; returns the bytes of each, what was sent, and the definitions of the tools."""
    machine = "arm64" if os.uname().machine == "aarch64" else "x64"
    node = os.path.join(clients, f"node_modules/node-linux-{machine}/bin/node")
    steps = json.dumps([{"name": name, "input": given} for name, given in calls])
    # A file takes more than a pipe before somebody reads it.
    path = os.path.join(home, "asked")
    with open(path, "w", encoding="utf-8") as written, open(path, encoding="utf-8") as said:
        endpoint = subprocess.Popen(
            [node if os.path.exists(node) else "node", os.path.join(HERE, "../tests/clients/endpoint.mjs"), steps],
            stdout=written)
        try:
            port = first_line(said)
            return answered(clients, lbx, calls, (root, home, port), said)
        finally:
            endpoint.kill()
            endpoint.wait()


def first_line(said):
    """The first line of a file that is being written."""
    for _ in range(200):
        said.seek(0)
        line = said.readline()
        if line.endswith("\n"):
            return line.strip()
        time.sleep(0.05)
    sys.exit("the endpoint did not start")


def answered(clients, lbx, calls, place, said):
    """Runs Claude Code; returns its calls with their results, and the definitions of the tools."""
    root, home, port = place
    variables = common.environment(home) | {
        "PATH": f"{os.path.dirname(lbx)}:/usr/local/bin:/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "true",
    }
    claude = [os.path.join(clients, "node_modules/.bin/claude"), "--allowedTools", ",".join([*OWN, "mcp__lbx"])]
    done = subprocess.run([*claude, "-p", "go", "--output-format", "json"], cwd=root, env=variables,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300)
    asked = [json.loads(line) for line in said.read().splitlines()]
    if len(asked) <= len(calls):
        sys.exit(f"{len(asked)} requests for {len(calls)} calls: {done.stdout} {done.stderr}")
    results = [request["result"] for request in asked[1:]]
    return list(zip(calls, map(shown, results), results)), asked[0]["definitions"]


def session(clients, lbx, uses_lbx):
    """Bytes sent and received in each task, and those of the definitions."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="lbx-session-"))
    root, home = os.path.join(folder, "project"), os.path.join(folder, "home")
    try:
        os.makedirs(home)
        project(root)
        common.commit_all(root, home)
        if uses_lbx:
            variables = common.environment(home) | {"PATH": f"{os.path.dirname(lbx)}:/usr/local/bin:/usr/bin:/bin"}
            subprocess.run([lbx, "init", "--client", "claude-code", "--exclusive"], cwd=root, env=variables, check=True,
                           stdout=subprocess.DEVNULL)
        by_task = [(name, [(f"mcp__lbx__{tool}", given) for tool, given in theirs] if uses_lbx else own)
                   for name, own, theirs in tasks(root)]
        calls = [call for _, of_task in by_task for call in of_task]
        measured, definitions = run(clients, lbx, calls, root, home)
    finally:
        shutil.rmtree(folder)
    rows, left = {}, iter(measured)
    for name, of_task in by_task:
        done = [next(left) for _ in of_task]
        rows[name] = (sum(size(given) for (_, given), _, _ in done), sum(got for _, got, _ in done))
        if "--show" in sys.argv:
            for (tool, given), got, result in done:
                print(f"{name}: {tool} {size(given)} {got}\n  {given}\n  {result['content']}", file=sys.stderr)
    if "--show" in sys.argv:
        print(definitions, file=sys.stderr)
    ours = [name for name in definitions if (name.startswith("mcp__lbx__") if uses_lbx else name in OWN)]
    return rows, sum(definitions[name] for name in ours)


def total(rows):
    """Bytes sent and received in all tasks."""
    return tuple(map(sum, zip(*rows.values())))


def main():
    """Prints the table."""
    words = [word for word in sys.argv[1:] if word != "--show"]
    if not 1 <= len(words) <= 2:
        sys.exit(__doc__)
    lbx = os.path.realpath(words[0])
    clients = os.path.realpath(words[1] if len(words) == 2 else os.path.join(HERE, "../target/clients"))
    own, own_definitions = session(clients, lbx, False)
    ours, our_definitions = session(clients, lbx, True)
    print("| task | Claude Code: sent | received | lbx: sent | received | ratio |")
    print("|---|---|---|---|---|---|")
    rows = [*((name, own[name], ours[name]) for name in own), ("all calls", total(own), total(ours))]
    rows.append(("definitions of the tools", (0, own_definitions), (0, our_definitions)))
    rows.append(("calls and definitions", *((sent, got + more) for (sent, got), more in (
        (total(own), own_definitions), (total(ours), our_definitions)))))
    for name, theirs, mine in rows:
        print(f"| {name} | {theirs[0]} | {theirs[1]} | {mine[0]} | {mine[1]} | {sum(mine) / sum(theirs):.2f} |")


main()
