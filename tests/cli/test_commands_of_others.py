"""An installed package with the entry point `ganexp.commands`: its command is found by its name, as ganexp's own are."""

import subprocess
import sys

import pytest

from ganexp.cli import commands
from ganexp.cli.main import command, overview
from ganexp.facts import UserError
from tests.calling import call

MODULE = "loud_of_a_test"
ASKED = '''"""Say a word loudly.

    ganexp shout hello
"""

from ganexp.facts import UserError


def add_arguments(parser):
    parser.add_argument("word", help="what is said")
    parser.add_argument("--times", type=int, default=1, help="how often")


def refuse(options):
    if options.times < 1:
        raise UserError(f"--times should be at least 1, not {options.times}")
'''
DONE = """
def run(options):
    return options.times * options.word.upper()
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the package as `pip install --target` does; one of its entry points has the name of a command of ganexp's."""
    package = tmp_path / MODULE / "shout"
    package.mkdir(parents=True)
    (tmp_path / MODULE / "__init__.py").touch()
    (package / "__init__.py").write_text(ASKED)
    (package / "run.py").write_text(DONE)
    info = tmp_path / "loud-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        f"[{commands.GROUP}]\nshout = {MODULE}.shout\npush = {MODULE}.shout\ngone = nowhere_of_a_test\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith(MODULE)]:
        del sys.modules[name]


def test_it_is_listed_and_what_is_not_there_is_said(installed):
    said = " ".join(overview().format_help().split())
    assert " shout Say a word loudly " in said
    assert " gone nowhere_of_a_test cannot be imported (No module named 'nowhere_of_a_test'): install its package again" in said
    assert f"{MODULE}.shout.run" not in sys.modules
    with pytest.raises(UserError, match=r"^nowhere_of_a_test cannot be imported "):
        command(["gone"])


def test_it_does_its_work_after_its_refusals(installed):
    assert call("shout", "hello", "--times", 2) == "HELLOHELLO"
    with pytest.raises(UserError, match=r"^--times should be at least 1"):
        command(["shout", "hello", "--times", "0"])
    with pytest.raises(UserError, match=r"^ganexp has no command shut\. Did you mean shout\?"):
        command(["shut"])


def test_a_command_of_ganexps_keeps_its_name(installed):
    assert commands.package("push").__name__ == "ganexp.cli.commands.push"


def test_only_the_command_that_is_named_is_imported():
    code = "import sys; from ganexp.cli.main import parsed; parsed(['push', 'RUN', 'a/b']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name for name in done.stdout.split() if name.startswith("ganexp.cli.commands.")}
    assert imported == {"ganexp.cli.commands.push"}
