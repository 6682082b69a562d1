"""Whatever names the version, names the same, and the citation has what its format and its readers ask for."""

import re
import tomllib

import yaml

from tests.composing import CONF

ROOT = CONF.parent
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_newest_release_of_the_changelog_is_the_version_of_the_package_and_of_the_citation():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    releases = re.findall(r"^## (\d+\.\d+\.\d+), (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == (version, CITATION["date-released"].isoformat())
    assert CITATION["version"] == version


def test_the_citation_is_complete():
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    assert CITATION["authors"]
    assert all(author.get("name") or author.get("family-names") for author in CITATION["authors"])
    assert CITATION.get("repository-code", "https://").startswith("https://")
    assert "example.org" not in str(CITATION)  # there is no address yet
    assert CITATION["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert all(CITATION[key] for key in ("message", "title", "abstract", "keywords"))
