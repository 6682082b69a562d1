"""The games of `scripts/games/` beside their plain loops, and beside closed forms."""

import copy
import re
from pathlib import Path

import pytest
import torch
from torch.nn.functional import softplus
from torch.utils.data import DataLoader, TensorDataset

from games.constrained import Constrained
from games.domains import Domains
from games.table import Table
from games.tokenizer import Tokenizer
from games.vocoder import Vocoder
from ganexp import Step, strategies
from ganexp.wrappers import Pretrain

PAGE = (Path(__file__).parents[2] / "docs" / "your_own_trainer.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
STRATEGIES = strategies.by_name()


def weights(game):
    return [p.detach().clone() for player in (game.generator, game.discriminator) for p in player.parameters()]


def stepped(player, strategy, count):
    game, batches = player.game(), player.batches()
    step = Step(game, strategy)
    for _ in range(count):
        step(batches)
    return weights(game)


@pytest.mark.parametrize("kind", [Vocoder, Domains, Table, Constrained])
def test_a_game_is_its_plain_loop(kind):
    plain, ours = (kind(seed=1, dtype=torch.float64) for _ in range(2))
    begun = weights(plain.game())
    plain.loop(plain.batches(), 4)
    actual = stepped(ours, STRATEGIES[kind.rule], 4)
    assert not any(map(torch.equal, begun, actual))
    for a, b in zip(weights(plain.game()), actual, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_a_decoder_and_d_beside_it_are_their_plain_loop(monkeypatch):
    monkeypatch.setattr(Tokenizer, "alone", 2)
    monkeypatch.setattr(Tokenizer, "beside", 3)
    plain, ours = (Tokenizer(dtype=torch.float64) for _ in range(2))
    codes = plain.E.weight.clone()
    plain.loop(plain.batches(), 8)
    for a, b in zip(weights(plain.game()), stepped(ours, Pretrain(strategies.detach, g=2, beside=3), 8), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    assert torch.equal(ours.E.weight, codes)


@pytest.mark.parametrize("rule", ["extragradient", "past_extragradient", "competitive"])
def test_constrained_least_squares_end_in_the_closed_form(rule):
    players = Constrained()
    w, _ = players.solution()
    assert torch.allclose(players.C @ w, players.d)
    stepped(players, STRATEGIES[rule], 1500)
    assert players.distance() < 1e-2


def test_the_page_s_vocoder_is_the_page_s_loop():
    example, iteration, *_, generate = BLOCKS
    example = example.replace("Extragradient()", "ganexp.strategies.detach")
    before_training = example.split("for iteration in")[0]
    ends = []
    for source in (
        example,
        before_training + "for _ in range(20):\n" + "".join(f"    {line}\n" for line in iteration.splitlines()),
    ):
        torch.manual_seed(0)
        names = {}
        exec(source, names)
        ends.append(weights(names["game"]))
    assert all(map(torch.equal, *ends))
    exec(generate, names)
    made = names["generate"](next(names["reals"]))
    assert made.dtype == torch.float32
    assert torch.equal(made, made.bfloat16())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of other packages
def test_lightning_and_accelerate_train_as_the_plain_loop():
    lightning, _ = pytest.importorskip("pytorch_lightning"), pytest.importorskip("accelerate")
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(64, 2), torch.randn(64, 4)), 16)
    names = {}
    for block in BLOCKS[2:4]:
        exec(block, names)
    model = names["Adversarial"]()
    prepared, plain = copy.deepcopy([model.G, model.D]), copy.deepcopy([model.G, model.D])
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(model, loader)
    names["train"](*prepared, *(torch.optim.Adam(network.parameters(), 1e-3) for network in prepared), loader)
    (G, D), optimizers = plain, [torch.optim.Adam(network.parameters(), 1e-3) for network in plain]
    for x, z in loader:
        d_loss = (softplus(-D(x)) + softplus(D(G(z).detach()))).mean()
        gradients = torch.autograd.grad(softplus(-D(G(z))).mean(), [*G.parameters()])
        gradients += torch.autograd.grad(d_loss, [*D.parameters()])
        for p, gradient in zip((*G.parameters(), *D.parameters()), gradients, strict=True):
            p.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
    expected = [p for network in plain for p in network.parameters()]
    for actual in ([*model.parameters()], [p for network in prepared for p in network.parameters()]):
        for a, b in zip(expected, actual, strict=True):
            torch.testing.assert_close(a, b.cpu(), rtol=1e-5, atol=1e-7)
