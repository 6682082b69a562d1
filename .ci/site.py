"""Makes a site of the pages as they are: README.md is the first one, and links to other files lose their target."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<!!)\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\(([^()\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the README as the first page, with links as they are from docs/."""
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"\]\((?!https?:|#|docs/)", "](../", text)
    files.append(File.generated(config, "index.md", content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links to files that are not on the site into links to the repository, or into plain text if it has no address."""
    there = {file.src_uri for file in files}

    def linked(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        path = target.partition("#")[0]
        if not path or re.match(r"\w+:", target) or path in there:
            return found[0]
        if path == "../README.md":
            return f"[{text}]({target.replace('../README.md', 'index.md')})"
        inside = (ROOT / "docs" / path).resolve().relative_to(ROOT)
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{inside})" if config.repo_url else text

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else LINK.sub(linked, part) for number, part in enumerate(parts))
