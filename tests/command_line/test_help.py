"""`--help` explains every group, option and key that there is, with the defaults that there are."""

import re
import subprocess
import sys

import pytest
from omegaconf import OmegaConf
from pydantic import BaseModel

from ganexp.configuration.schema import Config
from tests.composing import CONF, composed, options

GROUPS = ("dataset", "generator", "discriminator", "loss", "penalty", "strategy", "optimizer", "experiment")


@pytest.fixture(scope="module")
def said():
    command = [sys.executable, str(CONF.parent / "train.py"), "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def keys(model, prefix=""):
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{prefix}{name}.")
        elif f"{prefix}{name}" not in GROUPS:
            yield prefix + name


def test_every_key_is_explained_with_its_default(said):
    defaults = composed()
    for key in keys(Config):
        told = re.search(rf"(?<![\w.]){re.escape(key)}(?:=(\S+?))?(?=[,\s])", said.partition("KEYS")[2])
        assert told, key
        if told[1] and key != "data_root":
            value = OmegaConf.select(defaults, key)
            assert told[1] == ("null" if value is None else str(value).lower()), key


def test_every_option_and_its_keys_are_explained(said):
    for group in GROUPS:
        for option in options(group):
            assert re.search(rf"\b{option}\b", said), f"{group}={option}"
            if group == "experiment":
                continue
            node = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{option}.yaml"))
            for key in {*node, *node.get("g", {})} - {"name", "_target_", "defaults", "g", "d"}:
                assert re.search(rf"[(;, ]{key}[,;) =]", said), f"{group}.{key}"


def test_no_line_is_too_long_for_a_terminal(said):
    assert max(len(line) for line in said.splitlines()) <= 130
