// Serves an MCP server that speaks over stdio as streamable HTTP, for the conformance suite.
//
// node bridge.mjs NAMES COMMAND [ARGUMENT…] prints the port once it listens. Each session is a process of
// its own. NAMES is JSON: what the suite calls, and what stands for it here (see conformance.rs).

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [names, command, ...args] = process.argv.slice(2);
const { tools = {}, resources = {}, prompts = {} } = JSON.parse(names);

/** A request with the names that the server knows. */
function translated({ method, params }) {
  if (method === "tools/call" && tools[params.name]) return { ...params, ...tools[params.name] };
  if (method === "prompts/get" && prompts[params.name]) return { ...params, ...prompts[params.name] };
  if (method === "resources/read" && resources[params.uri]) return { ...params, uri: resources[params.uri] };
  return params;
}

/** A server process, and who waits for its answers. */
class Session {
  constructor() {
    this.waiting = new Map();
    this.child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    createInterface({ input: this.child.stdout }).on("line", (line) => this.hear(line));
  }

  /** Sends an answer to the request it belongs to, and anything else to the newest that is open. */
  hear(line) {
    const message = JSON.parse(line);
    const isAnswer = message.method === undefined;
    const open = isAnswer ? this.waiting.get(message.id) : [...this.waiting.values()].at(-1);
    open?.write(`event: message\ndata: ${line}\n\n`);
    if (isAnswer) {
      open?.end();
      this.waiting.delete(message.id);
    }
  }

  /** Passes a message on to the server. */
  tell(message) {
    const passed = message.params ? { ...message, params: translated(message) } : message;
    this.child.stdin.write(`${JSON.stringify(passed)}\n`);
  }
}

const sessions = new Map();

/** Carries out one POST. */
function post(message, request, response) {
  let id = request.headers["mcp-session-id"];
  if (message.method === "initialize") {
    id = randomUUID();
    sessions.set(id, new Session());
  }
  const session = sessions.get(id);
  if (!session) return response.writeHead(404).end();
  if (message.method === undefined || message.id === undefined) {
    session.tell(message);
    return response.writeHead(202).end();
  }
  response.writeHead(200, { "content-type": "text/event-stream", "mcp-session-id": id });
  session.waiting.set(message.id, response);
  session.tell(message);
}

const server = createServer(async (request, response) => {
  if (request.method !== "POST") return response.writeHead(405).end();
  let body = "";
  for await (const part of request) body += part;
  post(JSON.parse(body), request, response);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
