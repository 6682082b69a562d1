"""A run and its data: dropout draws the same wherever they lie, and a resumed run gets those that it was trained on."""

import multiprocessing
import shutil

import pytest
import torch
from PIL import Image
from torch import nn

from ganexp import GAN, Prior, Step, Trainer, build
from ganexp.data import Fake, Resident, Streamed
from ganexp.facts import UserError
from ganexp.losses import Hinge
from ganexp.networks import MLPGenerator
from ganexp.strategies import detach
from ganexp.strategies.base import as_strategy
from ganexp.training.checkpoint import CheckpointError
from tests.composing import composed
from tests.small_runs import NETWORKS, assert_same

DATA = Fake(image_size=4, channels=1, n=23).load()


def trainer(reals, iterations):
    torch.manual_seed(0)
    G = MLPGenerator(3, (1, 4, 4), width=8)
    D = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 1), nn.Flatten(0))
    gan = GAN(G, D, Hinge(), torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters()), Prior(3), batch_size=5)
    return Trainer(Step(gan, detach), reals, iterations=iterations)


def end(run):
    run.fit()
    return {key: value for key, value in run.state_dict().items() if key != "trained_s"}


@pytest.mark.parametrize("feed", ["resident", "streamed", "streamed by workers"])
def test_with_dropout_a_resumed_run_is_the_undisturbed_one_and_that_on_data_in_memory(feed):
    def reals():
        return Resident(DATA, 5) if feed == "resident" else Streamed(DATA, 5, workers=feed.count("workers"))

    in_memory, whole = end(trainer(Resident(DATA, 5), 9)), end(trainer(reals(), 9))
    assert_same(whole, in_memory)
    first = trainer(reals(), 4)
    first.fit()
    state = first.state_dict()
    second = trainer(reals(), 9)
    torch.manual_seed(99)
    second.load_state_dict(state)
    assert_same(end(second), whole)


def test_a_run_ends_the_workers_of_its_feed_however_it_ends():
    run = trainer(Streamed(DATA, 5, workers=2), 3)
    assert len(multiprocessing.active_children()) == 2
    run.fit()
    assert not multiprocessing.active_children()
    run = trainer(Streamed(DATA, 5, workers=2), 3)
    run.step.strategy = as_strategy(lambda gan, reals, **steps: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.fit()
    assert not multiprocessing.active_children()


def test_a_generator_of_batches_can_be_gone_on_with_after_a_run():
    batches = (torch.zeros(5, 1, 4, 4) for _ in range(4))
    trainer(batches, 3).fit()
    next(batches)


def test_a_tensor_that_has_changed_is_refused():
    state = trainer(Resident(DATA, 5), 3).state_dict()
    changed = DATA.clone()
    changed[7, 0, 1, 2] += 1
    with pytest.raises(CheckpointError, match="the data"):
        trainer(Resident(changed, 5), 9).load_state_dict(state)
    trainer(Streamed(DATA, 5), 9).load_state_dict(state)


def folder(path):
    path.mkdir()
    for i in range(7):
        Image.new("RGB", (4, 4), (30 * i, 255 - 30 * i, 7 * i)).save(path / f"{i}.bmp")
    return path


def settings(images, feed="auto"):
    data = ["dataset=image_folder", f"dataset.path={images}", "dataset.image_size=4", "batch_size=5", "latent_dim=3"]
    return [*NETWORKS, *data, f"feed={feed}", "workers=0", "logger=[]", "device=cpu", "sample_every=100"]


def test_with_a_cold_cache_a_run_starts_from_the_random_stream_of_a_warm_one(tmp_path):
    images, streams = folder(tmp_path / "images"), []
    for feed in ("resident", "resident", "streamed"):
        build(composed(*settings(images, feed), "iterations=3"))
        streams.append(torch.get_rng_state())
    assert torch.equal(streams[0], streams[1])
    assert torch.equal(streams[0], streams[2])


def test_images_that_have_changed_are_refused_and_a_folder_that_was_moved_is_not(tmp_path):
    images = folder(tmp_path / "images")
    build(composed(*settings(images), "iterations=3"), tmp_path / "run").fit()
    last = tmp_path / "run" / "checkpoints" / "last.pt"
    moved = shutil.copytree(images, tmp_path / "moved", copy_function=shutil.copyfile)
    for place, feed in [(moved, "auto"), (images, "streamed")]:
        run = build(
            composed(*settings(place, feed), "iterations=5"),
            shutil.copytree(tmp_path / "run", tmp_path / feed),
            checkpoint=last,
        )
        assert run.iteration == 3
        run.fit()
    Image.new("RGB", (4, 4), "red").save(moved / "3.bmp")  # of the same size
    rows = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"^resume: the data"):
        build(composed(*settings(moved), "iterations=5"), tmp_path / "run", checkpoint=last)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == rows
    with pytest.raises(UserError, match="dataset"):
        build(composed(*settings(images), "dataset.channels=1", "iterations=5"), tmp_path / "run", checkpoint=last)
