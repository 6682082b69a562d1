"""The text of `python train.py --help`: every group with its options, and every key with its default and meaning.

`--help loss` shows that group alone, and `--help evaluation` the keys below `evaluation`.

It is made on request from the YAML files that Hydra would see, so that nothing is missing from it. Neither Hydra nor torch nor
any class that a file names is imported, so that it appears at once.
"""

import difflib
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from ganexp.cli.line import read_line
from ganexp.cli.options import Option, options, primary
from ganexp.config.defaults import conf_folder
from ganexp.config.plugins import conf_folders
from ganexp.facts import UserError
from ganexp.printable import printable

NARROWEST, WIDEST = 100, 130
NAMES, SETTINGS = 20, 28
"""Widths of the columns of names of options, and of keys with their defaults."""
HEAD = """\
ganexp trains GANs; its subject is the update strategy. Change anything by key=value, sweep over lists with -m:

  python train.py loss=softmaxgan strategy=joint d_steps=1 g_steps=2
  python train.py -m strategy=detach,g_first,joint loss=nonsaturating,hinge "seed=range(3)"

CHOICES, with their defaults; in brackets their own settings, given below the group, as in loss.gamma=0.7
"""
END = """
OF HYDRA

  hydra.run.dir             the run folder
  hydra/launcher=parallel   jobs of a sweep side by side; or slurm
  hydra/sweeper=search      search a space for the best sweep.metric

Groups can be mixed freely; what does not fit together is refused in one sentence. docs/choices.md has recipes,
docs/strategies.md compares strategies, --cfg job prints the composed configuration, --version the versions, and
--hydra-help is about Hydra itself. --help loss shows that group alone."""


def print_help(arguments: Sequence[str]) -> str | None:
    """Print the help, and return the exit status."""
    try:
        print(described(arguments), flush=True)
    except BrokenPipeError:  # as by `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError) as error:
        return f"Error: {printable(error)}"
    return None


def described(arguments: Sequence[str]) -> str:
    """Return the groups and the keys of the configuration that a command line names, as text for a terminal."""
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))
    line = read_line([word for word in arguments if word not in ("-h", "--help")])
    typed = [line.further] if line.further else []
    folders = [line.conf, *conf_folders(), *typed]  # in Hydra's order
    config, built_in = primary(folders, line.name), primary([conf_folder()])
    if not config.groups and not config.keys:
        raise UserError(f"--config-name={line.name} names no configuration in {' or '.join(map(str, folders))}.")
    meanings, keys = built_in.meanings | config.meanings, built_in.keys | config.keys
    names = [word.rstrip(".") for word in line.words if "=" not in word]
    groups = [group for group in config.groups if not names or group in names]
    about = [key for key in keys if not names or any(f"{key}.".startswith(f"{name}.") for name in names)]
    for word in names:
        if word not in groups and not any(f"{key}.".startswith(f"{word}.") for key in about):
            raise UserError(_unknown(word, [*config.groups, *keys]))
    lines = [] if names else [HEAD]
    for group in groups:
        lines += [*_group(f"{group}={config.groups[group]}  {meanings.get(group, '')}", options(group, folders), width), ""]
    lines += ["KEYS", ""] if about else []
    for key in about:
        lines += _entry(f"{key}={keys[key]}", meanings.get(key, ""), SETTINGS, width)
    return "\n".join(lines if names else [*lines, END]).rstrip()


def _unknown(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"--help {word}: there is no such group or key. " + (f"Did you mean {close[0]}?" if close else "--help lists all.")


def _group(heading: str, members: Sequence[Option], width: int) -> Iterator[str]:
    yield heading.rstrip()
    for member in members:
        settings = ", ".join(f"{key}={value}" for key, value in member.settings.items())
        yield from _entry(member.name, f"{member.meaning} ({settings})" if settings else member.meaning, NAMES, width)


def _entry(name: str, meaning: str, column: int, width: int) -> list[str]:
    """Return the lines of a name and its meaning, which stands beside the name, or below a long one."""
    text = textwrap.wrap(meaning, width - column, break_long_words=False, break_on_hyphens=False) or [""]
    first = [f"  {name:{column - 2}}{text[0]}"] if len(name) < column - 2 else [f"  {name}", " " * column + text[0]]
    return [line.rstrip() for line in first] + [" " * column + line for line in text[1:]]
