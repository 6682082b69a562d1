"""Publish a trained generator on the Hugging Face Hub: weights as safetensors, settings, samples and a model card.

    ganexp push outputs/latest owner/name --license mit
    ganexp push outputs/latest owner/name --private

It needs pip install "ganexp[hub]" and a login (hf auth login, or HF_TOKEN). The repository is created if it does not
exist; a second push adds a commit. ganexp.load("hf://owner/name") and ganexp sample hf://owner/name load it from there.
Paths and other details of your machine are not published: ganexp sample RUN --save shows what would be published.
"""

import re
from argparse import ArgumentParser, Namespace

from ganexp.cli import shared_options as shared
from ganexp.facts import UserError


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=shared.place, help="a run folder, a checkpoint or a saved generator; run=… is the same")
    parser.add_argument("repo", help="owner/name")
    parser.add_argument(
        "--license", help="as the hub calls it, such as mit or cc-by-4.0; none by default; that of the data may restrict it"
    )
    parser.add_argument(
        "--private", action="store_true", help="a new repository is seen by its owner alone; by everybody by default"
    )
    parser.add_argument("--message", default="Add a generator", help="what the commit says")
    parser.add_argument("--with-discriminator", action="store_true", help="publish it too, for ganexp.load_discriminator")
    shared.add(parser, "--plain-weights", "--trust")


def refuse(options: Namespace) -> None:
    """Refuse a run without a checkpoint, and a repository that is not `owner/name`."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", options.repo.removeprefix("hf://")):
        raise UserError(f"{options.repo} should be owner/name, as the hub calls a repository")
    shared.refuse_without_checkpoint(options.run)
