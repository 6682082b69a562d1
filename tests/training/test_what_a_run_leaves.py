"""What a run leaves in its folder: rows, pictures, a checkpoint, a summary."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp import build
from tests.composing import composed
from tests.small_runs import NARROW


@pytest.fixture(scope="module")
def began_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    cfg = composed(*NARROW, "loss=began", "generator=began", "discriminator=began", "iterations=7", "log_every=2")
    cfg.sample_every, cfg.average.decay = 3, 0.99
    trainer = build(cfg, folder)
    return trainer, trainer.fit(), folder


def test_reconstructions_stand_beside_what_was_reconstructed(began_run):
    trainer, summary, folder = began_run
    with Image.open(folder / summary["last"]["reconstructions"]) as picture:
        png = np.asarray(picture).astype(float)[..., 0]
    tiles = png[2:, 2:].reshape(-1, 34, 8, 34)[:, :32, :, :32].transpose(0, 2, 1, 3).reshape(-1, 32, 32)
    real = trainer.reals.last.values[:4]  # the batch is of four
    shown = trainer.gan.discriminator.reconstruct(real).detach()
    for i in range(len(real)):
        for tile, image in ((tiles[2 * i], real[i, 0]), (tiles[2 * i + 1], shown[i, 0])):
            assert np.abs(tile - np.clip(np.round((image.numpy() + 1) * 127.5), 0, 255)).max() <= 1


def test_a_run_leaves_rows_pictures_checkpoint_and_summary(began_run):
    _, summary, folder = began_run
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["progress/iteration"] for row in rows] == [0, 2, 3, 4, 6, 7]
    assert [row["progress/iteration"] for row in rows if "samples" in row] == [0, 3, 6, 7]
    for row in rows:
        for key in ("samples", "reconstructions", "real"):
            if key in row:
                with Image.open(folder / row[key]) as picture:
                    assert picture.mode == "RGB"
    assert json.loads((folder / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert summary["state"] == "finished"
    assert summary["last"]["began/k_t"] == rows[-1]["began/k_t"]
    assert all((folder / path).exists() for path in (summary["paths"]["samples"], summary["paths"]["checkpoint"]))


def test_before_anything_is_trained_there_are_samples_of_the_first_weights_beside_real_images(began_run):
    trainer, _, folder = began_run
    untrained = build(trainer.checkpoints.described["config"])
    row = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    with torch.no_grad():
        fake = untrained.gan.generator.eval()(untrained.gan.prior.fixed(64).values)
    for key, images in {"samples": fake, "real": next(untrained.reals).values}.items():
        with Image.open(folder / row[key]) as picture:
            png = np.asarray(picture).astype(float)[..., 0]
        for i in range(4):
            tile = png[2:34, 2 + 34 * i :][:, :32]
            assert np.abs(tile - np.clip((images[i, 0].numpy() + 1) * 127.5, 0, 255)).max() <= 1


def test_the_checkpoint_is_tensors_and_plain_values(began_run):
    trainer, _, folder = began_run
    loaded = torch.load(folder / "checkpoints" / "last.pt", weights_only=True)
    run = loaded["run"]
    assert {"generator", "discriminator", "loss", "optimizer_g", "optimizer_d", "prior", "meter"} <= set(run["gan"])
    assert run["iteration"] == 7
    assert loaded["config"]["loss"]["name"] == "began"
    assert torch.equal(run["gan"]["loss"]["k_t"], trainer.gan.loss.k_t)
    again = build(loaded["config"])
    again.gan.generator.load_state_dict(run["step"]["average"]["generator"])
    for a, b in zip(again.gan.generator.parameters(), trainer.step.average.generator.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not list(folder.glob("checkpoints/*.unfinished"))


def test_samples_come_from_the_average_and_the_fixed_latents(began_run):
    trainer, summary, folder = began_run
    with torch.no_grad():
        images = trainer.step.average.generator(trainer.gan.prior.fixed(64).values)
    with Image.open(folder / summary["last"]["samples"]) as picture:
        png = np.asarray(picture).astype(int)
    first = png[2:34, 2:34, 0]
    expected = np.clip(np.round((images[0, 0].numpy() + 1) * 127.5), 0, 255)
    assert np.abs(first - expected).max() <= 1
