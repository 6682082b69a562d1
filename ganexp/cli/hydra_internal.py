"""What ganexp uses of `hydra._internal`, which Hydra may change in any release; no other file imports it.

`tests/cli/test_hydra_internal.py` lists the names.
"""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import hydra
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.types import Override, ValueType
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from ganexp.config.schema import GROUPS
from ganexp.facts import UserError

__all__ = ["VERSION_BASE", "BasicSweeper", "Callbacks", "ConfigLoaderImpl", "Hydra", "Loader", "create_config_search_path"]

VERSION_BASE: dict[str, Any] = {} if tuple(map(int, hydra.__version__.split(".")[:2])) >= (1, 4) else {"version_base": "1.3"}
"""What `hydra.main` and its like are given: Hydra 1.3 needs its own number to behave as it does, and 1.4 warns of one."""
SINGLE = (*GROUPS, "experiment", "evaluation.protocol")
"""The keys that choose options, and for which a list means others than one value after the other."""


class Loader(ConfigLoaderImpl):
    """Composes runs and the jobs of a sweep; a job that was composed to check it is not composed again, in a tenth of a second.

    Args:
        path: Where options are looked for.
    """

    def __init__(self, path: ConfigSearchPath) -> None:
        super().__init__(path)
        self.job_values: dict[str, Any] = {}
        """Values that the jobs of a sweep are given when they begin, by dotted key."""
        self._checked: dict[tuple[str, ...], bytes] = {}

    def validate_sweep_overrides_legal(  # type: ignore[override]  # a static method there, called on the object
        self, overrides: Sequence[Override], run_mode: RunMode, from_shell: bool
    ) -> None:
        """Refuse several values in one run, and values of groups that name no option, for which Hydra has no exception type."""
        for override in overrides:
            if override.is_sweep_override() and run_mode == RunMode.RUN:
                key, _, value = str(override.input_line).partition("=")
                listed = override.value_type == ValueType.SIMPLE_CHOICE_SWEEP and key not in SINGLE
                a_list = f", or write {key}=[{value}] for a list" if listed else ""
                raise UserError(f"{override.input_line} is several values: add -m to run each of them{a_list}.")
            named = override.is_sweep_override() or override.is_delete() or isinstance(override.value(), (str, list, dict))
            if not named and self.repository.group_exists(override.key_or_group):
                raise UserError(f"{override.input_line}: a group takes one of its options, as in loss=hinge.")
        super().validate_sweep_overrides_legal(list(overrides), run_mode, from_shell)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Return the configuration of a job, with the values that it is given."""
        words = tuple(sweep_overrides)
        kept = self._checked.get(words)
        config = pickle.loads(kept) if kept else super().load_sweep_config(master_config, sweep_overrides)
        if not self.job_values:
            self._checked[words] = pickle.dumps(config)  # some 20 kB
        with open_dict(config):
            for key, value in self.job_values.items():
                OmegaConf.update(config, key, value)
        return config

    def __getstate__(self) -> Mapping[str, Any]:
        """Leave the composed jobs out for other processes, each of which is given this loader with every job."""
        return vars(self) | {"_checked": {}}
