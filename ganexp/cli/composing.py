"""Composition: Hydra turns the words of a command line into one configuration."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import version
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from ganexp.cli.hydra_errors import composing
from ganexp.cli.hydra_internal import VERSION_BASE, Hydra, Loader, create_config_search_path
from ganexp.cli.line import Line
from ganexp.cli.naming import CHOICES, rename_groups, run_name, typed_overrides
from ganexp.cli.options import option
from ganexp.config.defaults import conf_folder, options_in
from ganexp.config.parsing import parse
from ganexp.config.plain import OPTIONS, plain, register_resolver
from ganexp.config.plugins import plugins
from ganexp.config.schema import AUTO, GROUPS, LISTS, Config
from ganexp.facts import UserError

BROUGHT = "override /penalty@_global_.penalty"
"""The key by which an option's YAML brings a penalty along: how an option sets another group of the top level.

With a list, as in `override /penalty@_global_.penalty: [r1]`, Hydra needs that group before the option's in the defaults list.
"""


@dataclass(frozen=True)
class Request:
    """What a command line asks for.

    Args:
        values: The configuration, as plain values.
        config: The same, parsed.
        folder: Where a new run would lie.
        named: Whether this folder was typed.
        verbose: Whether debugging messages are shown, or of which loggers.
        warnings: What was typed and does not count.
        hydra: What is written into the folder's `.hydra`, by the name of the file.
        checkpoint: The checkpoint of the run that was named, to go on from.
    """

    values: dict[str, Any]
    config: Config
    folder: Path
    named: bool
    verbose: Any
    warnings: tuple[str, ...]
    hydra: Mapping[str, str]
    checkpoint: Path | None = None


class InstalledPlugins(SearchPathPlugin):
    """Adds the folders of plugins after ganexp's own, so that ganexp's options come first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the folders; Hydra calls this whenever it begins to compose."""
        for plugin in plugins():
            if plugin.conf:
                search_path.append(plugin.distribution, f"file://{plugin.conf}")


def _options(group: str) -> DictConfig:
    """Return all options of a group, those in further folders as well."""
    sources = GlobalHydra.instance().config_loader().get_sources() if GlobalHydra().is_initialized() else []
    folders = [Path(source.path) for source in sources if source.scheme() == "file"]
    return OmegaConf.create(options_in(group, [*folders, conf_folder()]))


# Whoever imports this module composes with the plugins' folders and with `${ganexp.options:GROUP}`.
Plugins.instance().register(InstalledPlugins)
register_resolver(OPTIONS, _options)
register_resolver("ganexp.run_name", lambda *, _root_: run_name(_root_))


@contextmanager
def started(line: Line) -> Iterator[Loader]:
    """Start Hydra with the search path that a command line gives.

    This is what `hydra.initialize_config_dir` does, except that the folder of `--config-dir` gets the place that it has when
    Hydra reads the command line, before Hydra's own options; `hydra.searchpath` stays free for what was typed.
    """
    if VERSION_BASE:
        version.setbase(VERSION_BASE["version_base"])
    before = GlobalHydra.instance().hydra
    path = create_config_search_path(str(line.conf))
    if line.further:
        if not line.further.is_dir():
            raise UserError(f"--config-dir={line.further} is not a folder.")
        path.prepend("command-line", f"file://{line.further}", anchor=SearchPathQuery(provider="schema"))
    GlobalHydra.instance().clear()
    try:
        loader = Loader(path)
        GlobalHydra.instance().initialize(Hydra("train", loader))
        yield loader
    finally:
        GlobalHydra.instance().hydra = before


def composed(line: Line) -> Request:
    """Compose the configuration of a new run from a command line."""
    with started(line) as loader:
        with composing():
            cfg = loader.load_configuration(line.name, [*line.words], run_mode=RunMode.RUN)
        named = line.value_of("hydra.run.dir") is not None
        if not named:
            cfg.hydra.run.dir = str(as_written(cfg.hydra.run, "dir")).replace(CHOICES, run_name(cfg))
        HydraConfig.instance().set_config(cfg)  # for ${hydra:…}
        values, config = values_of(cfg, cfg.hydra)
        folder, warnings = Path(cfg.hydra.run.dir), tuple(doubts(cfg.hydra))
        return Request(values, config, folder, named, cfg.hydra.verbose, warnings, as_hydra_writes(cfg, cfg.hydra))


def composed_keys(line: Line, keys: Iterable[str]) -> tuple[dict[str, Any], Any]:
    """Compose some keys from a command line, and return their plain values and Hydra's own configuration."""
    with started(line) as loader:
        with composing():
            cfg = loader.load_configuration(line.name, [*line.words], run_mode=RunMode.RUN)
        refuse_chdir(cfg.hydra)
        HydraConfig.instance().set_config(cfg)  # for ${hydra:…}
        return plain(OmegaConf.masked_copy(cfg, [*keys])), cfg.hydra


def compose(*overrides: str, config_dir: str | Path | None = None) -> DictConfig:
    """Compose a configuration with the defaults of `python train.py`, to be given to `ganexp.build`.

    Args:
        overrides: What the command line would be given, such as `loss=hinge` or `optimizer.lr=1e-4`.
        config_dir: A further folder of YAML files, laid out as `conf/` is: the command line's `--config-dir`.

    Raises:
        UserError: There is no such option or key; the message is the command line's.
    """
    line = Line(overrides, further=Path(config_dir).resolve() if config_dir else None)
    with started(line) as loader, composing():
        cfg = loader.load_configuration(line.name, [*overrides], run_mode=RunMode.RUN, from_shell=False)
        OmegaConf.resolve(cfg.measure)  # while it is known which folders have options
    settle_groups(cfg, cfg.hydra)
    if cfg.resume is not None:
        raise UserError("resume= is for the command line: here, ganexp.build(cfg, folder, checkpoint=…) resumes a run.")
    return _without_hydra(cfg)


def values_of(cfg: DictConfig, hydra: Any) -> tuple[dict[str, Any], Config]:
    """Return the composed configuration of one run or job as plain values, and parsed: each value is checked on its own.

    Torch is not imported for this: most mistakes are found at once.
    """
    refuse_chdir(hydra)
    settle_groups(cfg, hydra)
    if any("._target_=" in word for word in typed_overrides(hydra)):
        rename_groups(cfg, typed_overrides(hydra))
    values = plain(_without_hydra(cfg))
    return values, parse(values)


def refuse_chdir(hydra: Any) -> None:
    """Refuse to change the working directory: relative paths would mean other places once the run has begun."""
    if hydra.job.chdir:
        raise UserError("hydra.job.chdir=true would make relative paths mean places below the run folder: leave it out.")


def as_written(node: DictConfig, key: str) -> Any:
    """Return a value as it is written, with its interpolations."""
    return OmegaConf.to_container(node, resolve=False)[key]  # type: ignore[index, call-overload]


def as_hydra_writes(cfg: DictConfig, hydra: Any) -> dict[str, str]:
    """Return the files that Hydra's users look for in `.hydra`, by name."""
    overrides = OmegaConf.create(typed_overrides(hydra))
    return {"config.yaml": OmegaConf.to_yaml(_without_hydra(cfg)), "overrides.yaml": OmegaConf.to_yaml(overrides)}


def settle_groups(cfg: DictConfig, hydra: Any) -> None:
    """Drop a preset's settings for list members that are not chosen: `experiment=grid penalty=[r1]` takes r1 alone."""
    refuse_mixed_groups(cfg, hydra.runtime.choices)
    typed = [word.lstrip("+") for word in typed_overrides(hydra)]
    with read_write(cfg), open_dict(cfg):
        for group in filter(lambda group: OmegaConf.is_dict(cfg[group]), LISTS):
            settings = [name for name, node in cfg[group].items() if OmegaConf.is_dict(node) and "_target_" not in node]
            for name in settings:
                if name != AUTO and not any(word.startswith((f"{group}.{name}.", f"{group}.{name}=")) for word in typed):
                    del cfg[group][name]


def refuse_mixed_groups(cfg: DictConfig, choices: Mapping[str, Any]) -> None:
    """Refuse `loss=[hinge,wgan]`, which Hydra merges into one loss; it records no choice for such a group."""
    for group, node in cfg.items():
        if OmegaConf.is_dict(node) and "name" in node and group in GROUPS and group not in (*choices, *LISTS):
            raise UserError(f"{group!s} mixes several options into one: choose one of them, or sweep over them with -m.")


def doubts(hydra: Any) -> Iterator[str]:
    """Yield warnings about what Hydra resolves silently: a key given twice, a penalty that replaces a loss's own."""
    overrides = [word.partition("=") for word in typed_overrides(hydra)]
    values = {key: value for key, _, value in overrides}
    for key, count in Counter(key for key, *_ in overrides).items():
        if count > 1:
            yield f"{key} is given {_times(count)}: the last one counts, {key}={values[key]}."
    for key in [key for key in values if key in LISTS]:
        for name, count in Counter(re.findall(r"\w+", values[key])).items():
            if count > 1:
                yield f"{key}={values[key]} names {name} {_times(count)}: it counts once."
    if "penalty" in values:
        yield from _replaced_penalties(hydra, values["penalty"])


def _replaced_penalties(hydra: Any, typed: str) -> Iterator[str]:
    """Yield a warning if penalties that were typed take the place of some that the loss brings along."""
    names = re.findall(r"\w+", typed)
    folders = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    chosen = hydra.runtime.choices.get("loss")
    loss = option("loss", str(chosen), folders)
    defaults = loss.node.get("defaults", []) if loss else []
    entries = (entry for entry in defaults if isinstance(entry, dict) and BROUGHT in entry)
    penalties: list[str] | str = next(entries, {BROUGHT: []})[BROUGHT]
    brought = [penalties] if isinstance(penalties, str) else penalties
    if not {*brought} <= {*names}:
        yield (
            f"penalty={typed} takes the place of penalty=[{','.join(brought)}], which is part of "
            f"loss={chosen}: leave it out, or have both by penalty=[{','.join(dict.fromkeys([*brought, *names]))}]."
        )


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def _without_hydra(cfg: DictConfig) -> DictConfig:
    return OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
