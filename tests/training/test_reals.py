"""What a user may give as real batches, what comes of it, and which sentence ends what cannot be."""

import itertools
import logging
import signal
from contextlib import nullcontext

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from ganexp import strategies
from ganexp.data import Resident
from ganexp.training.checkpoint import CheckpointError, load
from ganexp.training.reals import Reals
from tests.tiny import BATCH, real_batches, state, tiny_trainer

POINTS = torch.arange(100.0).view(50, 2) / 50


def trained(reals, iterations, strategy=strategies.detach, **settings):
    trainer = tiny_trainer(strategy=strategy, reals=reals, iterations=iterations, **settings)
    trainer.fit()
    return trainer


def seen_of(reals, iterations):
    """Return the real batches that a strategy is given."""
    batches = []

    def look(gan, reals, *, d_steps, g_steps):
        batches.append(next(reals).values)
        strategies.detach(gan, itertools.repeat(batches[-1]), d_steps=1, g_steps=1)

    return batches, trained(reals, iterations, look)


def test_what_can_be_iterated_again_is_drawn_epoch_by_epoch_without_its_short_last_batch():
    expected = [part.double() for part in POINTS.split(BATCH) if len(part) == BATCH]
    for reals in (list(POINTS.split(BATCH)), DataLoader(POINTS, BATCH)):
        batches, trainer = seen_of(reals, 19)  # 50 = 8 · 6 + 2
        assert all(torch.equal(batch, other) for batch, other in zip(batches, itertools.cycle(expected), strict=False))
        assert trainer.reals.images == 19 * BATCH


def test_a_loader_that_shuffles_gives_another_order_in_each_epoch():
    loader = DataLoader(POINTS, BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))
    batches, _ = seen_of(loader, 16)
    epochs = torch.cat(batches[:8]), torch.cat(batches[8:])
    assert not torch.equal(*epochs)
    assert all(len(epoch.unique(dim=0)) == 48 for epoch in epochs)


def test_of_images_with_labels_the_images_are_taken():
    pairs = DataLoader(TensorDataset(POINTS, torch.zeros(50, dtype=torch.long)), BATCH)
    assert all(map(torch.equal, state(trained(pairs, 9).gan), state(trained(DataLoader(POINTS, BATCH), 9).gan)))


@pytest.mark.parametrize(
    ("reals", "sentence"),
    [
        (Resident(POINTS, batch_size=4), r"reals has batches of 4 and GAN draws 6 latents: give GAN\(…, batch_size=4\)"),
        (iter([POINTS[:4]]), r"reals has batches of 4 and GAN draws 6 latents: give GAN\(…, batch_size=4\)"),
        ([POINTS[:6], POINTS[:3], POINTS[:6]], "reals has batches of 3 and GAN draws 6"),
        (iter(POINTS.split(BATCH)), "reals ended after 8 batches: give an endless iterator, or what can be iterated again"),
        ([], "reals ended after 0 batches"),
        ([{"image": POINTS[:6]}], r"a batch of reals must be a tensor of floats, \(6, …\), .*, not dict"),
        ([POINTS[:6].to(torch.uint8)], r"must be a tensor of floats, .*, not torch.uint8 of shape \(6, 2\)"),
        (TensorDataset(POINTS), "reals must be batches to iterate over, not a TensorDataset: give ganexp.data.Streamed"),
        (POINTS, "reals must be batches to iterate over, not a Tensor"),
        (3, "reals must be batches to iterate over, not a int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_ends_in_one_sentence(reals, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        trained(reals, 100)
    assert "\n" not in str(error.value)


def test_a_run_that_is_fed_by_a_generator_goes_on_as_if_undisturbed(tmp_path, caplog):
    undisturbed = trained(real_batches(), 12)
    trained(real_batches(), 7, folder=tmp_path)
    resumed = tiny_trainer(iterations=12)
    with caplog.at_level(logging.WARNING):
        resumed.load_state_dict(load(tmp_path / "checkpoints" / "last.pt")["run"])
    assert "7 batches are drawn and discarded" in caplog.text
    resumed.fit()
    assert all(map(torch.equal, state(resumed.gan), state(undisturbed.gan)))


def test_drawing_what_was_drawn_before_leaves_the_random_stream_alone():
    trainer = tiny_trainer(reals=DataLoader(POINTS, BATCH, shuffle=True))
    before = torch.get_rng_state()
    trainer.reals.seek(11, 66)
    assert torch.equal(torch.get_rng_state(), before)
    assert (trainer.reals.batches, trainer.reals.images) == (11, 66)


def test_a_run_that_was_stopped_before_its_first_iteration_goes_on_with_the_random_stream_after_its_loaders_seed(tmp_path):
    ends = []
    for stopped in (True, False):
        trainer = tiny_trainer(reals=DataLoader(POINTS, BATCH), folder=tmp_path if stopped else None, iterations=2)
        torch.manual_seed(7)
        if stopped:
            trainer.stopping.received = signal.SIGTERM
            trainer.fit()
            trainer = tiny_trainer(reals=DataLoader(POINTS, BATCH), iterations=2)
            trainer.load_state_dict(load(tmp_path / "checkpoints" / "last.pt")["run"])
        trainer.fit()
        ends.append(torch.get_rng_state())
    assert torch.equal(*ends)


def test_a_loader_with_a_generator_of_its_own_is_resumed_to_the_last_bit(tmp_path):
    def loader():
        return DataLoader(POINTS, BATCH, shuffle=True, generator=torch.Generator().manual_seed(2))

    undisturbed = trained(loader(), 20)
    trained(loader(), 13, folder=str(tmp_path))
    resumed = tiny_trainer(reals=loader(), iterations=20)
    resumed.load_state_dict(load(tmp_path / "checkpoints" / "last.pt")["run"])
    resumed.fit()
    assert all(map(torch.equal, state(resumed.gan), state(undisturbed.gan)))


def test_an_iterator_cannot_be_rolled_back_which_is_said_at_once():
    with pytest.raises(ValueError, match='on_divergence must be "stop" or "warn" with an iterator'):
        trained(real_batches(), 5, on_divergence="rollback")


def test_a_checkpoint_from_before_an_iterators_batch_leaves_the_run_as_it_was(tmp_path):
    trained(real_batches(), 3, folder=tmp_path)
    further = trained(real_batches(), 5)
    before = [tensor.clone() for tensor in state(further.gan)]
    with pytest.raises(CheckpointError, match="an iterator, which cannot go back"):
        further.load_state_dict(load(tmp_path / "checkpoints" / "last.pt")["run"])
    assert all(map(torch.equal, state(further.gan), before))
    assert (further.iteration, further.reals.batches) == (5, 5)


def watched(*batches):
    settings = {"batch_size": len(batches[0]), "device": torch.device("cpu"), "dtype": torch.float32}
    return Reals(iter(batches), lambda name: nullcontext(), **settings)


def test_a_picture_shows_a_thousand_real_points_and_always_the_same():
    batches = torch.randn(50, 32, 2).unbind()
    reals = watched(*(batch.clone() for batch in batches))
    for _ in range(40):
        next(reals).values.add_(100)  # what becomes of a batch later does not matter
    assert torch.equal(reals.shown(), torch.cat(batches)[:1000])
    list(itertools.islice(reals, 10))
    assert torch.equal(reals.shown(), torch.cat(batches)[:1000])
    assert (reals.batches, reals.images) == (50, 1600)


@pytest.mark.parametrize("interrupted_at", [3, 12])
def test_a_picture_shows_the_same_points_after_a_resumption(tmp_path, interrupted_at):
    batches = torch.randn(20, 100, 2).unbind()
    undisturbed, before, resumed = watched(*batches), watched(*batches), watched(*batches)
    list(itertools.islice(undisturbed, 15))
    list(itertools.islice(before, interrupted_at))
    torch.save(before.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed.load_state_dict(state)
    list(itertools.islice(resumed, 15 - interrupted_at))
    assert torch.equal(resumed.shown(), torch.cat(batches)[:1000])
    assert torch.equal(resumed.shown(), undisturbed.shown())


def test_a_picture_shows_the_last_batch_of_images():
    batches = torch.randn(3, 4, 1, 8, 8).unbind()
    reals = watched(*batches)
    list(itertools.islice(reals, 3))
    assert torch.equal(reals.shown(), batches[-1])


@pytest.mark.parametrize("seeks", [True, False])
def test_looking_ahead_draws_nothing(seeks):
    reals = Resident(POINTS.double(), BATCH) if seeks else list(POINTS.double().split(BATCH))
    expected, _ = seen_of(reals, 10)
    trainer = tiny_trainer(reals=Resident(POINTS.double(), BATCH) if seeks else list(POINTS.double().split(BATCH)))
    assert torch.equal(trainer.reals.shown(), expected[0])
    assert torch.equal(trainer.reals.last.values, expected[0])
    assert (trainer.reals.batches, trainer.reals.images) == (0, 0)
    assert all(torch.equal(next(trainer.reals).values, batch) for batch in expected)
    assert torch.equal(trainer.reals.last.values, expected[9])
    trainer.reals.ahead()
    trainer.reals.seek(3, 18)
    assert torch.equal(next(trainer.reals).values, expected[3])


def test_images_between_0_and_1_are_warned_of_once(caplog):
    images = torch.rand(3, 4, 1, 8, 8)
    list(itertools.islice(watched(*images.unbind()), 3))
    assert caplog.text.count("as ToTensor() makes them, and generators make images in [-1, 1]: scale them by 2 * x - 1") == 1
    list(itertools.islice(watched(*(255 * images).unbind()), 3))
    assert caplog.text.count("scale them by x / 127.5 - 1") == 1
    caplog.clear()
    for others in (2 * images - 1, torch.rand(3, 4, 2), torch.ones(3, 4, 1, 8, 8)):
        list(itertools.islice(watched(*others.unbind()), 3))
    assert not caplog.text
