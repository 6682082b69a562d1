"""A stand-in for a model hub, on the loopback interface: repositories in memory, of which every push makes a commit."""

import base64
import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from tests.serving import running


class Hub(ThreadingHTTPServer):
    """`commits` has the files of each commit of `owner/name`, by their paths; `token` is who may write."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, token):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token, self.commits, self.large, self.private, self.asked = token, {}, {}, {}, []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def files(self, repo, revision):
        """Return a commit's number, as the hub writes it, and its files."""
        number = len(self.commits[repo]) if revision == "main" else int(revision, 16)
        return f"{number:040x}", self.commits[repo][number - 1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Keep quiet."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, hub = unquote(self.path.partition("?")[0]), self.server
        hub.asked.append(f"{self.command} {path}")
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        allowed = self.headers.get("authorization") == f"Bearer {hub.token}" or path.startswith("/large/")
        if self.command in ("POST", "PUT") and not allowed:
            return self.answer({"error": "Invalid credentials"}, 401)
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if found := re.fullmatch(r"/api/models/(\w+/\w+)/preupload/main", path):
            paths = [one["path"] for one in json.loads(body)["files"]]
            modes = ["lfs" if path.endswith(".safetensors") else "regular" for path in paths]
            files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in zip(paths, modes, strict=True)]
            return self.answer({"files": files})
        if path.endswith("/info/lfs/objects/batch"):
            objects = [{"oid": one["oid"], "size": one["size"]} for one in json.loads(body)["objects"]]
            upload = {one["oid"]: {"upload": {"href": f"{hub.url}/large/{one['oid']}"}} for one in objects}
            return self.answer({"transfer": "basic", "objects": [one | {"actions": upload[one["oid"]]} for one in objects]})
        if path.startswith("/large/"):
            hub.large[path.removeprefix("/large/")] = body
            return self.answer({})
        if found := re.fullmatch(r"/api/models/(\w+/\w+)/commit/main", path):
            return self.commit(found[1], body)
        if found := re.fullmatch(r"/api/models/(\w+/\w+)(?:/revision/(\w+))?", path):
            return self.describe(found[1], found[2] or "main")
        if found := re.fullmatch(r"/api/models/(\w+/\w+)/tree/(\w+)", path):
            _, files = hub.files(*found.groups()) if hub.commits[found[1]] else ("", {})
            listed = [{"type": "file", "path": name, "size": len(files[name]), "oid": _digest(files[name])} for name in files]
            return self.answer(listed)
        if found := re.fullmatch(r"/(\w+/\w+)/resolve/(\w+)/(\S+)", path):
            return self.resolve(*found.groups())
        return self.answer({"error": f"no {path}"}, 404)

    do_GET = do_PUT = do_HEAD = do_POST

    def create(self, asked):
        repo = f"{asked.get('organization') or 'someone'}/{asked['name']}"
        known = repo in self.server.commits
        self.server.commits.setdefault(repo, [])
        self.server.private.setdefault(repo, asked.get("private") or asked.get("visibility") == "private")
        return self.answer({"url": f"{self.server.url}/{repo}"}, 409 if known else 200)

    def commit(self, repo, body):
        files = dict(self.server.commits[repo][-1]) if self.server.commits[repo] else {}
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
                assert _digest(files[value["path"]]) == value["oid"]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        self.server.commits[repo].append(files)
        sha, _ = self.server.files(repo, "main")
        return self.answer({"success": True, "commitUrl": f"{self.server.url}/{repo}/commit/{sha}", "commitOid": sha})

    def describe(self, repo, revision):
        if repo not in self.server.commits:
            return self.answer({"error": "Repository not found"}, 404, code="RepoNotFound")
        if not self.server.commits[repo]:
            return self.answer({"_id": "1", "id": repo, "sha": "0" * 40, "siblings": []})
        sha, files = self.server.files(repo, revision)
        return self.answer({"_id": "1", "id": repo, "sha": sha, "siblings": [{"rfilename": name} for name in files]})

    def resolve(self, repo, revision, name):
        sha, files = self.server.files(repo, revision)
        content = files[name]
        self.send_response(200)
        headers = {"etag": f'"{_digest(content)}"', "x-repo-commit": sha, "content-length": len(content)}
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def answer(self, values, status=200, code=None):
        body = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if code:
            self.send_header("x-error-code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _digest(content):
    return hashlib.sha256(content).hexdigest()


def serving(token="hf_of_a_test"):
    """Run a stand-in for as long as the context lasts."""
    return running(Hub(token))
