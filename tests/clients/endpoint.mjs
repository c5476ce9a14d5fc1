// A model's endpoint that plays a script: it answers each request that offers tools with the next step, and writes what
// it was asked on a line of stdout. The first line is its port. It speaks the Messages API of Anthropic and the
// Responses API of OpenAI.
import http from "node:http";

const script = JSON.parse(process.argv[2]);
let next = 0;

/** The events of one answer of the Messages API. */
function* messages(step, id) {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: `m${id}`, type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage };
  yield ["message_start", { message }];
  if (step.name) {
    const block = { type: "tool_use", id: `toolu_${id}`, name: step.name, input: {} };
    yield ["content_block_start", { index: 0, content_block: block }];
    const delta = { type: "input_json_delta", partial_json: JSON.stringify(step.input) };
    yield ["content_block_delta", { index: 0, delta }];
  } else {
    yield ["content_block_start", { index: 0, content_block: { type: "text", text: "" } }];
    yield ["content_block_delta", { index: 0, delta: { type: "text_delta", text: "done" } }];
  }
  yield ["content_block_stop", { index: 0 }];
  const stop_reason = step.name ? "tool_use" : "end_turn";
  yield ["message_delta", { delta: { stop_reason, stop_sequence: null }, usage }];
  yield ["message_stop", {}];
}

/**
 * The events of one answer of the Responses API. A tool of a server is in a namespace: `mcp__lbx__read` is its `read`. A
 * tool with a text as its input is a custom one.
 */
function* responses(step, id) {
  const usage = { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 };
  const content = [{ type: "output_text", text: "done" }];
  let item = { type: "message", id: `m${id}`, role: "assistant", content };
  if (step.name) {
    const at = step.name.lastIndexOf("__");
    const call = at < 0 ? { name: step.name } : { namespace: step.name.slice(0, at), name: step.name.slice(at + 2) };
    const [type, input] = typeof step.input === "string"
      ? ["custom_tool_call", { input: step.input }]
      : ["function_call", { arguments: JSON.stringify(step.input) }];
    item = { type, id: `f${id}`, call_id: `c${id}`, ...call, ...input };
  }
  yield ["response.created", { response: { id: `r${id}` } }];
  yield ["response.output_item.done", { output_index: 0, item }];
  yield ["response.completed", { response: { id: `r${id}`, usage } }];
}

/** The full name of each tool, those of a namespace with it. */
const names = (tool) => (tool.tools ?? [{}]).map((inner) => [tool.name, inner.name].filter(Boolean).join("__"));

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    const path = new URL(request.url, "http://localhost").pathname;
    const api = { "/v1/messages": messages, "/v1/responses": responses }[path];
    if (request.method !== "POST" || !api) {
      response.end("{}");
      return;
    }
    const asked = JSON.parse(body);
    const tools = (asked.tools ?? []).flatMap(names);
    const step = tools.length > 0 ? (script[next++] ?? {}) : {};
    const said = asked.messages ?? asked.input;
    const skill = body.match(/lbx:lbx: [^\\]*/)?.[0];
    const blocks = (message) => (Array.isArray(message.content) ? message.content : []);
    const result = said.flatMap(blocks).find((block) => block.tool_use_id === `toolu_${next - 1}`);
    const bytes = (tool) => [tool.name, Buffer.byteLength(JSON.stringify(tool))];
    const definitions = next > 1 ? undefined : Object.fromEntries((asked.tools ?? []).map(bytes));
    if (tools.length > 0) console.log(JSON.stringify({ tools, last: said.at(-1), result, skill, definitions }));
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const [type, data] of api(step, next)) {
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    }
    response.end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
