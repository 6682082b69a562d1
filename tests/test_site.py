"""The site reads on a telephone and on a desk: nothing is wider than its page, and no name in a table is broken."""

import json
import os
import subprocess

import pytest

from tests.browser import needs_a_browser, title
from tests.composing import CONF

ROOT = CONF.parent
MEASURE = r"""
const frame = document.body.appendChild(document.createElement("iframe"));
const found = [];
(async () => {
  for (const width of [400, 1280]) for (const page of PAGES) {
    frame.style = `width: ${width}px; height: 900px`;
    await new Promise(loaded => { frame.onload = loaded; frame.src = page; });
    await new Promise(drawn => setTimeout(drawn, 200));
    const inside = frame.contentDocument, wide = inside.documentElement.scrollWidth;
    if (wide > width) found.push(`${page} at ${width} is ${wide} wide`);
    for (const code of inside.querySelectorAll("article table code"))
      if (/^[\w.=]+$/.test(code.textContent) && code.getClientRects().length > 1)
        found.push(`${page} at ${width} breaks ${code.textContent}`);
  }
  document.title = JSON.stringify(found.slice(0, 9));
})();
"""


@pytest.mark.slow
@needs_a_browser
def test_pages_fit_and_names_in_tables_are_whole(tmp_path):
    (build,) = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "$environment/site" in line]
    subprocess.run(["bash", "-c", build], check=True, cwd=ROOT, env=os.environ | {"environment": str(tmp_path)}, timeout=300)
    pages = [str(path) for path in sorted((tmp_path / "site").rglob("index.html"))]
    assert len(pages) >= len([*(ROOT / "docs").glob("*.md")])
    page = tmp_path / "site" / "measured.html"
    page.write_text("<title></title><body></body>")
    script = MEASURE.replace("PAGES", json.dumps([f"file://{path}" for path in pages]))
    said = title(page, script, "--allow-file-access-from-files", "--window-size=1400,1000", budget_ms=120_000)
    assert json.loads(said) == []
