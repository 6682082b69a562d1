"""Build the site of the documentation: python .ci/site.py, and open build/site/index.html.

README.md is the first page. The notebooks become pages with the outputs that are in them. The playground is made in some
minutes, if it is not there. Links to files that are no pages become plain text, unless `REPOSITORY` has an address.

Zensical builds the pages, and refuses links to pages and headings that are not there; `broken` looks at every other link.
"""

import argparse
import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
REPOSITORY = ""
"""The address of the repository, to which links to its files lead."""
LINK = re.compile(r"(?<!!)\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\(([^()\s]+)\)")


def main() -> None:
    """Write the pages below build/pages, build the site from them, and check its links."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="the site's folder")
    parser.add_argument("--playground", type=Path, default=ROOT / "outputs" / "playground.html", help="the playground's page")
    options = parser.parse_args()
    if not options.playground.is_file():
        subprocess.run([sys.executable, "scripts/playground.py", "--output", options.playground], cwd=ROOT, check=True)
    work = ROOT / "build" / "pages"
    shutil.rmtree(work, ignore_errors=True)
    write_pages(work / "docs")
    shutil.copy(options.playground, work / "docs" / "playground.html")
    shutil.copy(ROOT / ".ci" / "mkdocs.yml", work)
    if subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=work).returncode:
        sys.exit(1)
    if wrong := [*broken(work / "site")]:
        sys.exit("\n".join(wrong))
    shutil.rmtree(options.output, ignore_errors=True)
    shutil.copytree(work / "site", options.output)
    print(f"Written to {options.output}")


def write_pages(place: Path) -> None:
    """Write the pages and what they show."""
    shutil.copytree(ROOT / "docs", place)
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"\]\((?!https?:|#|docs/)", "](../", text)  # links as they are from docs/
    (place / "index.md").write_text(text.replace("](docs/", "]("))
    for notebook in place.rglob("*.ipynb"):
        write_notebook(notebook)
    for page in place.rglob("*.md"):
        page.write_text(with_links(page.read_text(), page.relative_to(place).parent, place))


def write_notebook(notebook: Path) -> None:
    """Write a notebook as a page beside it: its text, its code, what the code prints, its pictures and tables."""
    parts = []
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            picture, table = (output.get("data", {}).get(kind) for kind in ("image/png", "text/html"))
            if picture:
                name = f"{notebook.stem}_{number}.png"
                notebook.with_name(name).write_bytes(base64.b64decode(picture))
                parts.append(f"![what the cell above draws]({name})")
            elif table:
                parts.append("".join(table))
            else:
                parts.append("```text\n" + "".join(output["text"]).rstrip() + "\n```")
    notebook.with_suffix(".md").write_text("\n\n".join(parts) + f"\n\n[This page as a notebook]({notebook.name})\n")


def with_links(text: str, folder: Path, place: Path) -> str:
    """Return a page, in a folder of the site's pages, with links to other files as links to the repository or plain text."""

    def linked(found: re.Match[str]) -> str:
        said, target = found[1], found[2]
        path, _, heading = target.partition("#")
        if not path or re.match(r"\w+:", target) or said == "This page as a notebook":
            return found[0]
        inside = (ROOT / "docs" / folder / path).resolve().relative_to(ROOT)
        page = {"README.md": "docs/index.md"}.get(str(inside), str(inside)).removeprefix("docs/")
        page = re.sub(r"\.ipynb$", ".md", page)
        if (place / page).is_file() and not page.startswith(".."):
            return f"[{said}]({'../' * len(folder.parts)}{page}{'#' * bool(heading)}{heading})"
        return f"[{said}]({REPOSITORY.rstrip('/')}/blob/main/{inside})" if REPOSITORY else said

    parts = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else LINK.sub(linked, part) for number, part in enumerate(parts))


class Addresses(HTMLParser):
    """The addresses that a page links to or shows, and the places in it that a link can name."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places = {"", "top"}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the addresses and the names of one tag."""
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


def broken(site: Path) -> Iterator[str]:
    """Yield a sentence for each link of the site's pages that leads to nothing on it."""
    pages = {page: Addresses(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{page.relative_to(site)}: {link} leads to no file."
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{page.relative_to(site)}: {link} leads to no heading."


if __name__ == "__main__":
    main()
