"""The container file installs and runs what the README says, and nothing else. Building it takes a container engine."""

import json
import re
import tomllib

from tests.composing import CONF

ROOT = CONF.parent
LINES = [line for line in (ROOT / "docs" / "Containerfile").read_text().splitlines() if line and not line.startswith("#")]


def given(instruction):
    return [line.removeprefix(f"{instruction} ") for line in LINES if line.startswith(f"{instruction} ")]


def test_it_builds_with_the_two_commands_of_the_readme():
    (first, tests) = re.findall(r"^pip install -e .* && .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    installed = [*zip(given("RUN"), (" ".join(json.loads(one)) for one in given("CMD")), strict=True)]
    assert installed == [tuple(first.split(" && ")), tuple(tests.split(" && "))]
    assert {line.split()[0] for line in LINES} == {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "CMD"}


def test_it_begins_with_a_python_that_will_do_and_ends_without_the_tests():
    image, dev, last = given("FROM")
    version = re.fullmatch(r"python:3\.(\d+)-slim AS ganexp", image)[1]
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert int(version) >= int(least.removeprefix(">=3."))
    assert (dev, last) == ("ganexp AS dev", "ganexp")
