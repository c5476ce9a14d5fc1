// A model's endpoint that plays a script: it answers each request that offers tools with the next step, and writes what
// it was asked on a line of stdout. The first line is its port.
import http from "node:http";

const script = JSON.parse(process.argv[2]);
let next = 0;

/** The events of one answer of the Messages API. */
function* events(step, id) {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage };
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

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    if (request.method !== "POST" || !request.url.startsWith("/v1/messages") || request.url.includes("count_tokens")) {
      response.end("{}");
      return;
    }
    const asked = JSON.parse(body);
    const tools = (asked.tools ?? []).map((tool) => tool.name);
    const step = tools.length > 0 ? (script[next++] ?? {}) : {};
    if (tools.length > 0) console.log(JSON.stringify({ tools, last: asked.messages.at(-1) }));
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const [type, data] of events(step, next)) {
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    }
    response.end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
