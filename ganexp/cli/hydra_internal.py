"""What ganexp uses of `hydra._internal`, which Hydra may change in any release; no other file imports it.

`tests/cli/test_hydra_internal.py` lists the names.
"""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.types import Override, ValueType
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from ganexp.config.schema import GROUPS
from ganexp.facts import UserError


class Loader(ConfigLoaderImpl):
    """Composes runs, and the jobs of a sweep: each once in this process, since composing one takes a tenth of a second.

    Args:
        path: Where options are looked for.
    """

    def __init__(self, path: ConfigSearchPath) -> None:
        super().__init__(path)
        self.told: dict[str, Any] = {}
        """What the jobs of a sweep are told, by dotted key."""
        self._jobs: dict[tuple[str, ...], bytes] = {}

    def validate_sweep_overrides_legal(  # type: ignore[override]  # a static method there, called on the object
        self, overrides: Sequence[Override], run_mode: RunMode, from_shell: bool
    ) -> None:
        """Refuse several values in one run, and values of groups that name no option.

        Raises:
            UserError: There are some.
        """
        for one in overrides:
            group = self.repository.group_exists(one.key_or_group)
            if group and not one.is_sweep_override() and not isinstance(one.value(), (str, list, dict)) and not one.is_delete():
                raise UserError(f"{one.input_line}: a group takes one of its options, as in loss=hinge.")
            if one.is_sweep_override() and run_mode == RunMode.RUN:
                a_list = ""
                if one.value_type == ValueType.SIMPLE_CHOICE_SWEEP and one.key_or_group not in (*GROUPS, *SINGLE):
                    key, _, value = str(one.input_line).partition("=")
                    a_list = f", or write {key}=[{value}] for a list"
                raise UserError(f"{one.input_line} is several values: add -m to run each of them{a_list}.")
        super().validate_sweep_overrides_legal(list(overrides), run_mode, from_shell)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Return the configuration of a job, with what it is told."""
        words = tuple(sweep_overrides)
        if words not in self._jobs:
            self._jobs[words] = pickle.dumps(super().load_sweep_config(master_config, sweep_overrides))  # a copy is as large
        config: DictConfig = pickle.loads(self._jobs[words])  # our own
        with open_dict(config):
            for key, value in self.told.items():
                OmegaConf.update(config, key, value)
        return config

    def __getstate__(self) -> Mapping[str, Any]:
        """Leave the composed jobs out for the other processes, each of which is given this loader once per job."""
        return vars(self) | {"_jobs": {}}


SINGLE = ("experiment", "evaluation.protocol")
"""Keys besides groups that choose one option."""


def context_of(loader: ConfigLoader) -> HydraContext:
    """Return what Hydra's sweepers and launchers are given."""
    return HydraContext(config_loader=loader, callbacks=Callbacks())


__all__ = ["BasicSweeper", "ConfigLoaderImpl", "Hydra", "Loader", "context_of", "create_config_search_path"]
