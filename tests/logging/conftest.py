"""What tests of W&B share."""

import os

import pytest
import wandb


@pytest.fixture
def no_account(monkeypatch, tmp_path):
    """Begin without W&B's variables and without an account, and end what W&B knows of them."""
    wandb.teardown()  # first: it takes its own process's address out of the environment, which would be put back at the end
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    yield
    wandb.teardown()
