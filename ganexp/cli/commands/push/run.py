"""`ganexp push`: publish a trained generator on the Hugging Face Hub."""

import argparse

from ganexp.config.loading import load, load_discriminator
from ganexp.sampling import push


def run(options: argparse.Namespace) -> str:
    """Publish a generator, and return its address."""
    repo = options.repo.removeprefix("hf://")
    how = {"trust": options.trust, "averaged": not options.plain_weights}
    discriminator = load_discriminator(options.run, **how) if options.with_discriminator else None
    address = push(
        load(options.run, **how),
        repo,
        discriminator=discriminator,
        licence=options.license,
        private=options.private,
        message=options.message,
    )
    print(f'Published at {address}; in Python: ganexp.load("hf://{repo}")')
    if not options.license:
        print("It has no licence yet: push it again with --license, or choose one there.")
    return address
