"""A parsed command line: words such as `loss=hinge`, and further folders of configurations."""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ganexp.config.defaults import conf_folder
from ganexp.facts import UserError

CONF = conf_folder()


@dataclass(frozen=True)
class Line:
    """What was typed.

    Args:
        words: `key=value`, in their order.
        sweeps: Whether -m was given.
        further: The folder of --config-dir, with options beside ganexp's.
        conf: The folder of the primary configuration.
        name: Its name.
    """

    words: tuple[str, ...] = ()
    sweeps: bool = False
    further: Path | None = None
    conf: Path = CONF
    name: str = "train"

    def value_of(self, key: str) -> str | None:
        """Return the last value that was typed for a key; None if there is none."""
        return next((word.partition("=")[2] for word in reversed(self.words) if key_of(word) == key), None)

    @property
    def options(self) -> list[str]:
        """The options that name folders of configurations, as words of a command line."""
        folders = {"--config-dir": self.further, "--config-path": self.conf, "--config-name": self.name}
        usual = {None, CONF, "train"}
        return [part for option, value in folders.items() if value not in usual for part in (option, str(value))]


class Parser(ArgumentParser):
    """Parses Hydra's options that name folders of configurations; relative paths start at the working directory."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.add_argument("-cd", "--config-dir", type=_folder)
        self.add_argument("-cp", "--config-path", type=_folder, default=CONF)
        self.add_argument("-cn", "--config-name", default="train")

    def error(self, message: str) -> NoReturn:
        """Refuse an option without its value."""
        raise UserError(f"{message}.")


def read_line(arguments: Sequence[str]) -> Line:
    """Read a command line."""
    parser = Parser()
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("words", nargs="*")
    options, unknown = parser.parse_known_intermixed_args(list(arguments))
    for option in unknown:
        key, _, value = option.lstrip("-").partition("=")
        raise UserError(
            f"{option} is not an option: write keys without hyphens, as {key}={value or '…'}. In the command of a W&B sweep, "
            "use ${args_no_hyphens} in place of ${args}."
        )
    return Line(tuple(options.words), options.multirun, options.config_dir, options.config_path, options.config_name)


def key_of(word: str) -> str:
    """Return the key of a word, without the signs that add or remove it."""
    return word.partition("=")[0].lstrip("+~")


def without(words: Iterable[str], *keys: str) -> list[str]:
    """Return the words that set none of these keys."""
    return [word for word in words if key_of(word) not in keys]


def _folder(text: str) -> Path:
    return Path(text).resolve()
