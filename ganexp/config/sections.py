"""How a key is declared, and the schema of nested keys; that of top-level keys is in `schema.py`."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

IntervalOrNever = Annotated[int, Field(ge=0, le=10**12)]


def _false(value: bool) -> bool:
    if value:
        raise ValueError("should be off")
    return value


Off = Literal["off"] | Annotated[bool, AfterValidator(_false)]
"""What turns off something that otherwise has a number; `Literal[False]` would also accept the number 0."""

FEATURES = r"\w+"
"""The pattern of the names of features; anything with another character is a file, which is code."""

Effect = Literal["training", "machine", "speed", "records"]
"""What a key changes: what is trained; where, and so its rounding; how fast; or how long a run lasts and what it writes where.

Keys of the first kind are part of a run's name, those of the first two must not change when it is resumed, and those of all
but the last tell runs apart in a report.
"""


def key(default: Any = ..., *, choices: str = "", effect: Effect = "training") -> Any:
    """Declare what a key's type does not say; its default and its meaning are in conf/train.yaml.

    Args:
        default: For a group, what runs had before the group existed.
        choices: What may be chosen, in words; a Literal of strings speaks for itself.
        effect: What it changes.
    """
    return Field(default, json_schema_extra={"choices": choices, "effect": effect})


def files_among(features: Any) -> list[str]:
    """Return which features are files, and so code."""
    return [
        str(one) for one in (features if isinstance(features, list) else [features]) if not re.fullmatch(FEATURES, str(one))
    ]


class Keys(BaseModel):
    """Some keys, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        """Convert a float that is a whole number to an integer: YAML reads 1e4 as a float."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


class SweepConfig(Keys):
    """The keys below `sweep`."""

    metric: str | None
    direction: Literal["auto", "minimize", "maximize"]
    resume: str | None


Named = Annotated[str, Field(min_length=1)]


class EvaluationConfig(Keys):
    """The keys below `evaluation`."""

    features: Named | Annotated[list[Named], Field(min_length=1)] = key(choices="a name, a file, or a list of them")
    feature_weights: Named | None
    samples: Annotated[int, Field(ge=2, le=10**7)]
    of: Literal["average", "generator"]
    against: Literal["train", "test"]
    protocol: str | None
    standing: Annotated[int, Field(ge=0, le=10_000)]

    @property
    def named(self) -> list[str]:
        """The features, each once."""
        return [*dict.fromkeys([self.features] if isinstance(self.features, str) else self.features)]

    @property
    def files(self) -> list[str]:
        """The features that are files, which are code."""
        return files_among(self.features)


class DynamicsConfig(Keys):
    """The keys below `dynamics`."""

    every: IntervalOrNever
    products: Annotated[int, Field(ge=20, le=10**9)]
