// Drives servers with the official TypeScript SDKs.
//
// Reads {"sessions": [...]} on stdin and prints a JSON line for each step, as driver.py does:
// {"session": 0, "step": 0, ...}. A session is {"command", "args", "cwd", "env", "mode", "steps"};
// the mode "v1" stands for the package of the first generation.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are not beside this file but in the folder that is the first argument.
const require = createRequire(pathToFileURL(`${process.argv[2]}/package.json`));

/** A client of one of the two packages. */
function clientOf(mode) {
  const info = { name: "test", version: "1" };
  if (mode === "v1") {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
    const client = new Client(info);
    const callTool = (params, options) => client.callTool(params, undefined, options);
    return { client, callTool, StdioClientTransport };
  }
  const { Client } = require("@modelcontextprotocol/client");
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  const client = new Client(info, { versionNegotiation: { mode } });
  const callTool = (params, options) => client.callTool(params, options);
  return { client, callTool, StdioClientTransport };
}

/** Calls a tool; says what came of it. */
async function call({ callTool }, step, signal) {
  const told = [];
  const options = { signal, timeout: 300_000 };
  if (step.progress) options.onprogress = (progress) => told.push(progress);
  try {
    const result = await callTool({ name: step.tool, arguments: step.arguments }, options);
    const { isError, content, structuredContent } = result;
    return { is_error: isError === true, content, structured: structuredContent ?? null, progress: told };
  } catch (error) {
    // A call that was given up is no error of the server.
    if (typeof error.code === "number" && !signal?.aborted) return { protocol_error: error.code, message: error.message };
    throw error;
  }
}

/** Calls a tool and goes once a file is there that the call makes. */
async function cancel(session, step) {
  const controller = new AbortController();
  const watch = setInterval(() => existsSync(step.once) && controller.abort("enough"), 20);
  try {
    return { cancelled: false, answer: await call(session, step, controller.signal) };
  } catch (error) {
    if (controller.signal.aborted) return { cancelled: true };
    throw error;
  } finally {
    clearInterval(watch);
  }
}

const deeds = {
  call,
  cancel,
  together: async (session, step) => ({
    answers: await Promise.all(step.calls.map((one) => call(session, one))),
  }),
  list: async ({ client }) => ({
    tools: (await client.listTools()).tools.map((tool) => tool.name),
    version: client.getNegotiatedProtocolVersion?.() ?? null,
  }),
};

for (const [number, given] of JSON.parse(readFileSync(0, "utf8")).sessions.entries()) {
  const session = clientOf(given.mode);
  const { command, args, cwd, env } = given;
  await session.client.connect(new session.StdioClientTransport({ command, args, cwd, env }));
  for (const [index, step] of given.steps.entries()) {
    const answer = await deeds[step.do](session, step);
    console.log(JSON.stringify({ session: number, step: index, ...answer }));
  }
  await session.client.close();
}
