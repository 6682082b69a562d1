"""Shards behind a server on the loopback interface, read by worker processes with a connection each."""

import http.server

import numpy as np
import pytest
import torch

from ganexp.data import Shards, Streamed
from ganexp.data.decoding import DecodingError
from tests.data.tars import shards, written
from tests.serving import running


class Server(http.server.BaseHTTPRequestHandler):
    """Serves bytes by path, and ranges of them unless it is told not to."""

    contents = None
    ranges = True

    def do_HEAD(self):
        self.do_GET(body=False)

    def do_GET(self, body=True):
        content = self.contents.get(self.path)
        if content is None:
            self.send_error(404)
            return
        asked = self.headers.get("Range") if self.ranges else None
        self.send_response(206 if asked else 200)
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            part = content[int(first) : int(last or len(content) - 1) + 1]
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
            content = part
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("aiohttp")
    contents, images = shards()
    monkeypatch.setattr(Server, "contents", {f"/train-{number:03d}.tar": one for number, one in enumerate(contents)})
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}/train-{{000..002}}.tar", images


@pytest.mark.slow
def test_batches_are_those_of_the_same_shards_on_a_disk(server, tmp_path):
    url, images = server
    there = Shards(url, image_size=8)
    np.testing.assert_array_equal(torch.stack([*there.load()]).permute(0, 2, 3, 1).numpy(), images)
    here = Shards(written(tmp_path / "shards")[0], image_size=8)
    assert there.digest() == here.digest()
    assert torch.equal(there.labels(), here.labels())
    for workers in (0, 2):
        streams = [Streamed(one.load(), 4, seed=1, workers=workers) for one in (there, here)]
        for _ in range(6):
            assert torch.equal(*(next(one).values for one in streams))
        for one in streams:
            one.close()


@pytest.mark.slow
def test_a_server_that_fails_is_told_from_an_image_that_is_broken(server, monkeypatch):
    url, _ = server
    data = Shards(url, image_size=8).load()
    monkeypatch.setattr(Server, "contents", {})
    with pytest.raises(DecodingError, match=r"train-000.tar/0000.png cannot be read \(") as raised:
        data[0]
    assert raised.value.__cause__.errno
    with pytest.raises(ValueError, match=r"and .* matches none$"):
        Shards(url.replace("{000..002}", "000"))
    with pytest.raises(OSError, match=r"^the shard http.*train-000.tar is not there$"):
        Shards(url, image_size=8).load()


@pytest.mark.slow
def test_a_server_without_ranges(server, monkeypatch):
    url, _ = server
    data = Shards(url, image_size=8).load()
    monkeypatch.setattr(Server, "ranges", False)
    with pytest.raises(DecodingError, match=r"0004.png cannot be read .*bytes"):
        data[4]
