"""A model server that plays a script: prints its port, answers each request with the next line of SCRIPT (JSON), and writes
what it was asked to ASKED, one JSON object a line. Ends after the last answer."""

import http.server
import json
import os

script = [json.loads(line) for line in open(os.environ["SCRIPT"])]
asked = open(os.environ["ASKED"], "w")


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Authorization") or self.headers.get("X-Api-Key")
        asked.write(json.dumps({"path": self.path, "key": key, "body": body}) + "\n")
        asked.flush()
        answer = json.dumps(script.pop(0)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
while script:
    server.handle_request()
