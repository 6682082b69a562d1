"""A stand-in for W&B's server, on the loopback interface, that can misbehave."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.logging.artifact_store import ArtifactStore
from tests.logging.sweep_queue import SweepQueue
from tests.serving import running


class StandIn(ThreadingHTTPServer):
    """Answers what `wandb` asks of a server; `mood` is `well`, `stalls`, `dead`, or the HTTP status that every request gets."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, mood):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mood, self.rows, self.waiting = mood, [], threading.Event()
        self.artifacts, self.sweep = ArtifactStore(self.url), SweepQueue()

    def handle_error(self, request, client_address):
        """Keep quiet about clients that hang up."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Keep quiet."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.server.mood == "stalls":
            self.server.waiting.wait(120)
        if self.server.mood == "dead":
            self.close_connection = True
            return self.connection.close()
        if isinstance(self.server.mood, int):
            return self.answer(self.server.mood, {"errors": [{"message": f"status {self.server.mood}, as planned"}]})
        if self.path == "/graphql":
            asked = json.loads(body)
            about = asked["query"], asked.get("variables") or {}
            kept = self.server.artifacts.answer(*about) or self.server.sweep.answer(*about)
            return self.answer(200, {"data": kept or _data(asked, self.server.url)})
        if self.command == "PUT" and self.path.startswith("/stored/"):
            self.server.artifacts.put(self.path, body)
        if self.path.endswith("/file_stream"):
            history = json.loads(body).get("files", {}).get("wandb-history.jsonl", {})
            self.server.rows += [json.loads(row) for row in history.get("content", [])]
        return self.answer(200, {"exitcode": None, "limits": {}})

    do_GET = do_PUT = do_POST

    def answer(self, status, values):
        body = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _data(question, url):
    query, variables = question["query"], question.get("variables") or {}
    if "upsertBucket" in query:
        project = {"id": "p", "name": variables.get("project") or "ganexp", "entity": {"id": "e", "name": "someone"}}
        name = variables.get("name") or "run"
        bucket = {"id": "b", "name": name, "displayName": name, "description": "", "config": "{}", "sweepName": None}
        return {"upsertBucket": {"bucket": bucket | {"project": project, "historyLineCount": 0}, "inserted": True}}
    if "createRunFiles" in query:
        files = [{"name": name, "uploadUrl": f"{url}/upload"} for name in variables.get("files", [])]
        return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
    if "ServerFeaturesQuery" in query:
        return {"serverInfo": {"features": []}}
    if "viewer {" in query:
        return {"viewer": {"id": "u", "entity": "someone", "username": "someone", "flags": "{}", "teams": {"edges": []}}}
    return {}


@contextmanager
def serving(mood="well"):
    """Run a stand-in for as long as the context lasts."""
    with running(StandIn(mood)) as server:
        try:
            yield server
        finally:
            server.waiting.set()
