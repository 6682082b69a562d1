"""Sizes of networks and of the images that they support."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from annotated_types import Ge, Le

Plan = TypeVar("Plan")

Width = Annotated[int, Ge(1), Le(65_536)]
Depth = Annotated[int, Ge(1), Le(1000)]


def halvings(shape: tuple[int, ...]) -> int:
    """Return how often the side of a square image, a power of two from 16 on, can be halved until it is 4."""
    height, width = sides(shape)
    if height != width or height < 16 or height & (height - 1):
        raise ValueError(
            f"shape should be one of 16×16, 32×32, 64×64, …, not {height}×{width}; set dataset.image_size where there is "
            "one, resize in a dataset of your own, or choose the mlp networks"
        )
    return height.bit_length() - 3


def first_map(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width of the map that is doubled until it is an image, such as 4×4; sides are powers of two from 16."""
    height, width = sides(shape)
    if min(height, width) < 16 or height & (height - 1) or width & (width - 1):
        raise ValueError(
            f"shape should have sides that are powers of two, 16 or more, such as 16×16 or 32×64, not {height}×{width}; set "
            "dataset.image_size where there is one, resize in a dataset of your own, or choose the mlp networks"
        )
    shorter = min(height, width)
    return 4 * height // shorter, 4 * width // shorter


def doublings(shape: tuple[int, ...]) -> int:
    """Return how often the map of `first_map` is doubled until it is an image."""
    return min(shape[1:]).bit_length() - 3


def planned(shape: tuple[int, ...], plans: Mapping[int, Plan]) -> Plan:
    """Return the plan for the side of a square image."""
    height, width = sides(shape)
    if height != width or height not in plans:
        sizes = ", ".join(f"{side}×{side}" for side in plans)
        raise ValueError(
            f"shape should be one of {sizes}, not {height}×{width}; set dataset.image_size where there is one, "
            "resize in a dataset of your own, or choose the dcgan or mlp networks"
        )
    return plans[height]


def sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width of an image, and refuse other shapes."""
    if len(shape) != 3:
        raise ValueError(f"shape should be that of an image, (C, H, W), not {shape}; choose the mlp networks")
    return shape[1], shape[2]
