"""What TensorBoard shows of a run, by its own reader of event files."""

import io
import json
import os
import shutil
import sys

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ganexp import build
from ganexp.facts import UserError
from ganexp.logging import RunDescription, TensorBoardLogger
from ganexp.logging.reading import read
from tests.composing import composed
from tests.full import on_a_full_disk
from tests.small_runs import SMALL, trained

WITH = [*SMALL, "logger=[tensorboard]", "iterations=9", "log_every=2", "sample_every=3"]
DYNAMICS = [*WITH, "dynamics.every=9"]


def shown(place):
    """Return the scalars of a folder as `{key: [(step, value), …]}`, and the reader."""
    reader = EventAccumulator(str(place), size_guidance={"scalars": 0, "images": 0})
    reader.Reload()
    return {key: [(event.step, event.value) for event in reader.Scalars(key)] for key in reader.Tags()["scalars"]}, reader


def picture(event):
    with Image.open(io.BytesIO(event.encoded_image_string)) as image:
        return np.asarray(image)


def expected(folder):
    """Return the same of the run folder's rows, in single precision as event files have it."""
    scalars = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        for key, value in row.items():
            if not isinstance(value, str):
                scalars.setdefault(key, []).append((row["progress/iteration"], float(np.float32(value))))
    return scalars


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    trainer = build(composed(*DYNAMICS), folder)
    return trainer, trainer.fit(), folder, *shown(folder / "tensorboard")


def test_scalars_are_the_rows(run):
    _, summary, folder, scalars, reader = run
    assert scalars == expected(folder)
    assert summary["paths"]["TensorBoard"] == f"tensorboard --logdir {folder}"
    (text,) = reader.Tensors("configuration/text_summary")
    assert '"latent_dim": 3' in text.tensor_proto.string_val[0].decode()


def test_grids_are_the_files_of_the_run(run):
    _, _, folder, _, reader = run
    images = reader.Images("samples")
    assert [image.step for image in images] == [0, 3, 6, 9]
    for image in images:
        with Image.open(folder / "samples" / f"samples_{image.step:07d}.png") as kept:
            np.testing.assert_array_equal(picture(image), np.asarray(kept))


def test_the_spectrum_is_drawn_where_its_eigenvalues_lie(tmp_path):
    logger = TensorBoardLogger()
    logger.open(RunDescription(tmp_path))
    eigenvalues = {"dynamics/real_1": 2.0, "dynamics/imag_1": 0.0, "dynamics/real_2": -1.0, "dynamics/imag_2": 1.5}
    logger.write({"progress/iteration": 7, **eigenvalues})
    logger.close({"paths": {}})
    (image,) = shown(tmp_path / "tensorboard")[1].Images("dynamics/eigenvalues")
    red = (picture(image).astype(int) @ [1, -1, 0]) > 100
    rows, columns = np.nonzero(red)
    reach, right, left, high, low = 2.2, 0.97 * 500, 0.16 * 500, 0.04 * 500, 0.9 * 500
    side = min(right - left, low - high)  # equal axes
    x = ((columns + 0.5) - (left + right) / 2) / side * 2 * reach
    y = ((high + low) / 2 - (rows + 0.5)) / side * 2 * reach
    for value, conjugates in ((2, [0]), (-1, [1.5, -1.5])):
        for imaginary in conjugates:
            near = np.hypot(x - value, y - imaginary) < 0.12
            assert near.sum() > 10
            assert np.hypot(x[near].mean() - value, y[near].mean() - imaginary) < 0.03
            x, y = x[~near], y[~near]
    assert len(x) == 0


def test_a_run_with_the_spectrum_has_its_picture(run):
    *_, reader = run
    assert [image.step for image in reader.Images("dynamics/eigenvalues")] == [9]


def test_a_resumed_run_shows_its_rows_once_and_later_ones_anew(tmp_path):
    trained(tmp_path, WITH, 9, stop_after=5)
    logger = TensorBoardLogger()  # as a run that is killed has written rows after its last checkpoint
    logger.open(RunDescription(tmp_path, before=read(tmp_path)))
    logger.write({"progress/iteration": 8, "loss/d": 1e9})
    logger.close({"paths": {}})
    trained(tmp_path, WITH, 9, resume=True)
    assert shown(tmp_path / "tensorboard")[0] == expected(tmp_path)


@pytest.mark.parametrize("kept", [0, 24, 200, 3000, 0.5, -100, -1])
def test_rows_that_a_kill_or_a_full_disk_has_kept_from_the_files_are_written_at_the_next_start(kept, tmp_path):
    trained(tmp_path, WITH, 9, stop_after=5)
    for number, path in enumerate(sorted((tmp_path / "tensorboard").iterdir())):
        size = path.stat().st_size
        os.truncate(path, 0 if number else int(kept * size) if kept == 0.5 else kept % size)
    trained(tmp_path, WITH, 9, resume=True)
    scalars, reader = shown(tmp_path / "tensorboard")
    assert scalars == expected(tmp_path)
    assert [image.step for image in reader.Images("samples")] == [0, 3, 6, 9]


@pytest.mark.slow
def test_a_run_that_gets_the_logger_late_shows_earlier_rows_too(tmp_path):
    build(composed(*WITH, "logger=[]", "iterations=6"), tmp_path).fit()
    build(composed(*WITH), tmp_path, checkpoint=tmp_path / "checkpoints" / "last.pt").fit()
    scalars, reader = shown(tmp_path / "tensorboard")
    assert scalars == expected(tmp_path)
    assert [image.step for image in reader.Images("samples")] == [0, 3, 6, 9]


def test_a_folder_of_ones_own_has_one_of_each_run(tmp_path):
    settings = composed(*WITH, f"logger.tensorboard.directory={tmp_path}/board", "iterations=1")
    for sweep in ("one", "other"):  # jobs of different sweeps have the same names
        build(settings, tmp_path / sweep / "0_a").fit()
        assert not (tmp_path / sweep / "0_a" / "tensorboard").exists()
    folders = sorted(path.parent.relative_to(tmp_path / "board").as_posix() for path in tmp_path.glob("board/**/events.*"))
    assert {*folders} == {"one/0_a", "other/0_a"}


def test_a_full_disk_stops_nothing_and_is_said_once(tmp_path, caplog):
    def written():
        logger = TensorBoardLogger()
        logger.open(RunDescription(tmp_path))
        for iteration in range(100):
            logger.write({"progress/iteration": iteration, "loss/d": 1.0})
        logger.rewind(50)
        logger.close({"paths": {}})
        return [record.levelname for record in caplog.records if record.name.startswith("ganexp")]

    assert on_a_full_disk(written, room=2000) == "['WARNING']"
    steps = [step for step, _ in shown(tmp_path / "tensorboard")[0]["loss/d"]]
    assert steps == [*range(len(steps))]
    assert 10 < len(steps) < 100


def test_a_folder_that_is_replaced_stops_nothing_and_no_thread_fails(tmp_path, caplog):
    logger = TensorBoardLogger()
    logger.open(RunDescription(tmp_path))
    shutil.rmtree(logger.place)
    logger.place.touch()
    for iteration in range(3):
        logger.write({"progress/iteration": iteration, "loss/d": 1.0})
    assert logger.rewind(1) == {}
    logger.write({"progress/iteration": 2, "loss/d": 2.0})
    logger.close({"paths": {}})
    assert [record.levelname for record in caplog.records if record.name.startswith("ganexp")] == ["WARNING"]


def test_without_the_package_it_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=r"logger\.tensorboard .*ganexp\[tensorboard\]"):
        build(composed(*WITH), tmp_path / "run")
    assert not (tmp_path / "run").exists()
