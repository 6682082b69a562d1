"""Generators on the Hugging Face Hub, or on a server of one's own that speaks its protocol (`HF_ENDPOINT`)."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from ganexp.facts import UserError
from ganexp.printable import one_line
from ganexp.sampling.saved import DOCUMENT, PICTURE, SCORER, WEIGHTS, save
from ganexp.sampling.trained import Trained

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SCHEME = "hf://"


def is_on_hub(place: str | Path) -> bool:
    """Return whether a place is a repository: `hf://owner/name`, optionally with a branch, tag or commit as in `@v1`."""
    return str(place).startswith(SCHEME)


def pulled(place: str, *, discriminator: bool = False) -> Path:
    """Return the folder in the hub's cache that holds a saved generator, which is downloaded unless it is there.

    Only the settings and the weights of one network, G or D, are fetched. Without a connection, what was fetched before is
    used.
    """
    repo, _, revision = place.removeprefix(SCHEME).partition("@")
    with _asking(place) as api:
        folder = api.snapshot_download(
            repo, revision=revision or None, allow_patterns=[SCORER if discriminator else WEIGHTS, DOCUMENT]
        )
    return Path(folder)


def push(
    trained: Trained,
    repo: str,
    *,
    discriminator: nn.Module | None = None,
    licence: str | None = None,
    private: bool = False,
    message: str = "Add a generator",
) -> str:
    """Publish a generator as a commit to a repository, created unless it exists, and return the repository's address.

    The commit holds what `save` writes, with a card that says how to load the generator from there.

    Args:
        trained: The generator, as returned by `ganexp.load`.
        repo: `owner/name`.
        discriminator: The discriminator of the same run, to be published too.
        licence: The hub's identifier of a licence for the card, such as `mit`.
        private: Whether a new repository is visible to its owner only.
        message: The message of the commit.
    """
    repo = repo.removeprefix(SCHEME)
    with tempfile.TemporaryDirectory() as folder:
        save(trained, folder, discriminator=discriminator, place=f"{SCHEME}{repo}", licence=licence)
        with _asking(repo) as api:
            address = api.create_repo(repo, private=private, exist_ok=True)
            stale = [name for name in (SCORER, PICTURE) if not Path(folder, name).exists()]  # another generator's
            api.upload_folder(repo_id=repo, folder_path=folder, commit_message=message, delete_patterns=stale or None)
    return str(address)


UNREACHABLE = {"TransportError", "ConnectionError", "Timeout", "TimeoutException"}
"""The names of the exceptions that the versions of huggingface_hub raise without a connection."""


@contextmanager
def _asking(place: str) -> "Iterator[HfApi]":
    """Raise the hub's errors as one sentence."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError:
        raise UserError(f'{place} needs the package huggingface_hub, which is missing: pip install "ganexp[hub]"') from None
    try:
        yield HfApi(library_name="ganexp")
    except RepositoryNotFoundError:
        raise UserError(
            f"{place} is not on the hub, or not for you: correct it, or log in by hf auth login or HF_TOKEN"
        ) from None
    except LocalEntryNotFoundError:
        raise UserError(f"{place} cannot be reached, and was never fetched before: connect to the internet once") from None
    except Exception as error:  # what the hub, the network and bad names raise has no common type
        if isinstance(error, OSError) and error.errno and error.filename:  # a full disk
            raise
        cause = error.__cause__ or error if type(error) is RuntimeError else error  # which says only that a file failed
        reason = one_line(cause)
        if UNREACHABLE & {kind.__name__ for kind in type(cause).__mro__}:
            raise UserError(
                f"{place}: the hub cannot be reached ({reason}): connect to the internet, or set HF_ENDPOINT"
            ) from None
        remedy = ": log in by hf auth login or HF_TOKEN" if "401" in reason or "403" in reason else ""
        raise UserError(f"{place}: the hub refuses it ({type(cause).__name__}: {reason}){remedy}") from None
