"""A browser without a window, where the machine has one."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
needs_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no browser")


def drawn(page, *flags):
    """Return the pixels of a page `(n, 3)`, as the browser draws them."""
    picture = page.with_name("drawn.png")
    _run(page, f"--screenshot={picture}", page.as_uri(), *flags)
    with Image.open(picture) as image:
        return np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)


def title(page, script, *flags, address="", budget_ms=10_000):
    """Return what a further script in a page writes into its title."""
    copy = page.with_name("copy.html")
    copy.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
    return re.search("<title>(.*?)</title>", _run(page, "--dump-dom", copy.as_uri() + address, *flags, budget_ms=budget_ms))[1]


def _run(page, *words, budget_ms=10_000):
    # A second --virtual-time-budget would not replace the first.
    command = [CHROMIUM, *FLAGS, f"--virtual-time-budget={budget_ms}", f"--user-data-dir={page.with_name('profile')}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
