"""Servers on the loopback interface, in a thread of their own."""

import threading
from contextlib import contextmanager


@contextmanager
def running(server):
    """Run a server for as long as the context lasts."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
