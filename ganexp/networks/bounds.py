"""Checks that constructors share; each raises a ValueError whose sentence begins with the argument's name."""


def at_least_one(**values: int) -> None:
    """Refuse widths, depths and the like below 1, and those that no machine could build."""
    for name, value in values.items():
        most = 1000 if name == "depth" else 65_536
        if not 1 <= value <= most:
            bound = f"at least 1, not {value}" if value < 1 else f"at most {most}, not {value}"
            raise ValueError(f"{name} must be {bound}")


def power_of_two_image(shape: tuple[int, ...], smallest: int) -> int:
    """Return how often the side of a square image can be halved until it is 4, or refuse the shape."""
    if len(shape) != 3:
        raise ValueError(f"shape must be that of an image for convolutions, not {shape}; take the mlp networks")
    _, height, width = shape
    if height != width or height < smallest or height & (height - 1):
        sizes = f"{smallest}×{smallest}, {2 * smallest}×{2 * smallest}, {4 * smallest}×{4 * smallest}, …"
        raise ValueError(f"shape must be one of {sizes}, not {height}×{width}; set dataset.image_size or take the mlp networks")
    return height.bit_length() - 3
