"""Every kind of refusal in whole sentences, which people have read: `sentences.txt` says what is typed, and what is answered.

Other tests of refusals look at the error's class and the key that it names.
"""

from pathlib import Path

import pytest
import torch

import ganexp
from ganexp.cli.failures import sentence as as_printed
from ganexp.config.check import check
from ganexp.facts import UserError
from tests.thinned import thinned

LINES = (Path(__file__).parent / "sentences.txt").read_text().splitlines()
TYPED, SENTENCES = LINES[::2], [line.removeprefix("    ") for line in LINES[1::2]]


@pytest.mark.parametrize(("typed", "sentence"), thinned(zip(TYPED, SENTENCES, strict=True), 3), ids=TYPED)
def test_a_mistake_is_answered_in_a_sentence(typed, sentence, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # the sentences are those of a machine without a GPU
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(UserError) as refused:
        check(ganexp.compose(*typed.split()))
    assert as_printed(refused.value) == sentence
    assert sentence.endswith((".", "?"))
