"""Write the playground, one self-contained HTML page: strategies on three games of two weights, and a ring of Gaussians.

    python scripts/playground.py                          # outputs/playground.html, in some minutes on a CPU
    python scripts/playground.py --gif docs/playground.gif

The page needs no server and no network. Its paths are computed in the browser, from recordings of what ganexp's own strategies
do to real GANs in float64. The ring is trained once, and kept beside the page for the next time.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from ganexp.documents import atomic_write, refuse_unwritable
from playing import ring
from playing.page import page


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or the GIF."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)  # one weight, or layers of 64: more threads only wait for each other
    place: Path = options.gif or options.output
    refuse_unwritable(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if options.gif:
        from playing.gif import write  # matplotlib takes a second to import

        write(options.gif)
    else:
        written = page(ring.courses(place.with_suffix(".npz"))).encode()
        with atomic_write(place) as file:
            file.write(written)
    print(f"Written to {place}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("outputs/playground.html"), help="the page")
    parser.add_argument("--gif", type=Path, help="write an animation for a README instead, and no page")
    return parser


if __name__ == "__main__":
    process.run(main)
