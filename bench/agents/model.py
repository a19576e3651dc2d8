"""A scripted model on loopback that speaks the Messages API of Claude Code.

The script is a generator: it yields calls of tools as (tool, arguments) and receives the text that the model would see.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LAST_WORDS = "the script is over"


class ScriptedModel:
    """Runs one script for one conversation. Repeated requests get the same response."""

    def __init__(self, script):
        self.script = script
        self.calls = []
        self.results = []
        self.tools = []
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                if not self.path.split("?")[0].endswith("/messages"):
                    return self.reply(b'{"input_tokens":1}', "application/json")
                self.reply(model.respond(body).encode(), "text/event-stream")

            def do_GET(self):
                self.reply(b"{}", "application/json")

            do_HEAD = do_GET

            def reply(self, text, kind):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def respond(self, body):
        if not body.get("tools"):
            return events(None)
        with self.lock:
            self.tools = [tool["name"] for tool in body["tools"]]
            results = [
                text_of(part.get("content"))
                for message in body["messages"]
                if isinstance(message["content"], list)
                for part in message["content"]
                if part.get("type") == "tool_result"
            ]
            while len(self.results) < len(results):
                self.results.append(results[len(self.results)])
                self.advance(self.results[-1])
            if not self.calls:
                self.advance(None)
            return events(self.calls[len(results)] if len(results) < len(self.calls) else None)

    def advance(self, result):
        try:
            tool, arguments = self.script.send(result)
            self.calls.append((f"call_{len(self.calls)}", tool, arguments))
        except StopIteration:
            pass

    def close(self):
        self.server.shutdown()


def text_of(content):
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


def events(call):
    """A streamed response with one call, or with the last words."""
    if call:
        name, tool, arguments = call
        block = {"type": "tool_use", "id": name, "name": tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": LAST_WORDS}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    stop = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    stream = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream)
