"""One run in several processes that torchrun has started: they compare their configurations and data before training."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil

from ganexp.cli.failures import exit_silently
from ganexp.config.parsing import parse
from ganexp.config.plain import dotted
from ganexp.distributed.processes import Processes
from ganexp.facts import UserError

OF_A_MACHINE = ("data_root", "logger", "resume")
"""Keys that may differ from one machine to the next."""
PLACES = ("dataset.root", "dataset.path")
"""Keys that may also differ if the data have a digest, which shows that they are the same wherever they lie."""


def is_distributed() -> bool:
    """Return whether torchrun, or another launcher that sets WORLD_SIZE, has started several processes."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


@contextmanager
def joined() -> Iterator[Processes]:
    """Join the processes that torchrun has started, if any; an error then ends all of them, and one of them reports it."""
    if not is_distributed():
        yield Processes()
        return
    from ganexp.distributed.group import FailedElsewhere  # imports torch
    from ganexp.distributed.joining import join

    processes = Processes()
    try:
        processes = join()
        yield processes
    except FailedElsewhere:
        exit_silently()
    except Exception:
        if not processes.is_reporter():
            exit_silently()
        raise


def refuse_distributed() -> None:
    """Refuse a sweep in several processes."""
    if not is_distributed():
        return
    if os.environ.get("RANK", "0") != "0":
        exit_silently()
    raise UserError("-m trains one job after another, each in one process: start it without torchrun, or leave out -m.")


def identity(values: dict[str, Any]) -> dict[str, Any]:
    """Return what must be equal in every process: configuration, data, commit and versions, as flat values."""
    from ganexp.config.choices import choose
    from ganexp.config.plugins import distributions
    from ganexp.logging.provenance import same_everywhere

    try:
        digest = choose("dataset", parse(values).dataset).make().digest()
    except OSError as error:
        raise UserError(f"dataset: {error}.") from error
    elsewhere = (*OF_A_MACHINE, *PLACES) if digest else OF_A_MACHINE
    kept = {key: value for key, value in dotted(values).items() if not key.startswith(elsewhere)}
    return kept | {"the data that are read": digest} | same_everywhere(*distributions())


def refuse_different(values: dict[str, Any], processes: Processes) -> None:
    """Refuse processes that would not train alike."""
    identities = processes.tell(processes.together(lambda: identity(values)))
    processes.together(lambda: refuse_differing(identities))


def refuse_differing(identities: Sequence[dict[str, Any]]) -> None:
    """Refuse processes whose `identity` differs."""
    first = identities[0]
    for rank, other in enumerate(identities):
        differing = sorted(key for key in {**first, **other} if first.get(key) != other.get(key))
        if differing:
            raise UserError(
                f"process {rank} differs from process 0 in {', '.join(differing[:5])}: start all with the same command and "
                "data, from the same commit and with the same versions."
            )


def restarted_since() -> float | None:
    """Return when the torchrun that has restarted this process began, in seconds since the epoch; None at the first start."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        return None
    return float(psutil.Process(os.getppid()).create_time())
