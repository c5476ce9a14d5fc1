"""Drives servers with the official Python SDK.

Reads {"sessions": [...]} on stdin and prints a JSON line for each step, as driver.mjs does:
{"session": 0, "step": 0, ...}. A session is {"command", "args", "cwd", "env", "mode", "steps"}.
"""

import json
import sys
from pathlib import Path

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters


def shown(block):
    """A block of content in short."""
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)


async def call(client, step):
    """Calls a tool; says what came of it."""
    told = []

    async def progress(done, total, message):
        told.append({"progress": done, "total": total, "message": message})

    wants_progress = progress if step.get("progress") else None
    try:
        result = await client.call_tool(step["tool"], step["arguments"], progress_callback=wants_progress)
    except MCPError as error:
        return {"protocol_error": error.error.code, "message": error.error.message}
    return {
        "is_error": bool(result.is_error),
        "content": [shown(block) for block in result.content],
        "structured": result.structured_content,
        "progress": told,
    }


async def cancel(client, step):
    """Calls a tool and goes once a file is there that the call makes."""

    async def begun():
        while not Path(step["once"]).exists():
            await anyio.sleep(0.02)
        scope.cancel()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(begun)
            answer = await call(client, step)
            group.cancel_scope.cancel()
            return {"cancelled": False, "answer": answer}
    return {"cancelled": True}


async def together(client, step):
    """Makes calls side by side; answers in their order."""
    answers = [None] * len(step["calls"])

    async def one(index):
        answers[index] = await call(client, step["calls"][index])

    async with anyio.create_task_group() as group:
        for index in range(len(answers)):
            group.start_soon(one, index)
    return {"answers": answers}


async def listed(client, _step):
    """The tools of the server, all pages."""
    tools = (await client.list_tools()).tools
    return {"tools": [tool.name for tool in tools], "version": client.protocol_version}


DEEDS = {"list": listed, "call": call, "cancel": cancel, "together": together}


async def main():
    for number, session in enumerate(json.load(sys.stdin)["sessions"]):
        server = StdioServerParameters(
            command=session["command"], args=session["args"], cwd=session["cwd"], env=session["env"]
        )
        async with Client(server, mode=session["mode"]) as client:
            for index, step in enumerate(session["steps"]):
                answer = await DEEDS[step["do"]](client, step)
                print(json.dumps({"session": number, "step": index, **answer}), flush=True)


anyio.run(main)
