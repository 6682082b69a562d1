"""The site's pages: the links of those in the repository lead to what is on the site, and a link to nothing is found."""

import base64
import importlib.util
import json

import pytest

from tests.composing import CONF

spec = importlib.util.spec_from_file_location("site_of_the_documentation", CONF.parent / ".ci" / "site.py")
site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)


@pytest.mark.parametrize(
    ("folder", "link", "there"),
    [
        ("", "[a](runs.md#trackio)", "[a](runs.md#trackio)"),
        ("", "[a](../README.md)", "[a](index.md)"),
        ("", "[a](notebooks/one.ipynb)", "[a](notebooks/one.md)"),
        ("", "[a [b]](../ganexp/gan/gan.py)", "a [b]"),
        ("", "[a](../docs/runs.md)", "[a](runs.md)"),
        ("", "[a](#here) and [b](https://example.org/x.md)", "[a](#here) and [b](https://example.org/x.md)"),
        ("", "```\n[a](../ganexp)\n```", "```\n[a](../ganexp)\n```"),
        ("notebooks", "[a](../runs.md#b)", "[a](../runs.md#b)"),
        ("notebooks", "[a](one.ipynb)", "[a](../notebooks/one.md)"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_become_text(folder, link, there, tmp_path):
    for name in ("index.md", "runs.md", "notebooks/one.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert site.with_links(link, site.Path(folder), tmp_path) == there


def test_a_notebook_is_a_page_with_its_outputs(tmp_path):
    picture = base64.b64encode(b"a picture").decode()
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {"cell_type": "code", "source": ["print(1)"], "outputs": [{"output_type": "stream", "text": ["1\n"]}]},
        {"cell_type": "code", "source": ["draw()"], "outputs": [{"data": {"image/png": picture, "text/plain": ["<Figure>"]}}]},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    site.write_notebook(tmp_path / "n.ipynb")
    text = (tmp_path / "n.md").read_text()
    assert text.startswith("# Title\nText.\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\ndraw()\n```\n\n![")
    assert "Figure" not in text
    assert (tmp_path / "n_2.png").read_bytes() == b"a picture"


def test_every_link_that_leads_to_nothing_is_found(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<h2 id="there">x</h2><a href="../x.png">x</a>')
    (tmp_path / "x.png").touch()
    fine = ["a/", "a/#there", "a/index.html", "#own", "x.png", "https://example.org/nothing", "mailto:a@b.c", "x%2Epng"]
    wrong = ["b/", "a/#gone", "y.png", "#none"]
    (tmp_path / "index.html").write_text('<p id="own">' + "".join(f'<a href="{one}">x</a>' for one in fine + wrong))
    found = [*site.broken(tmp_path)]
    assert [one.split()[1] for one in found] == wrong
