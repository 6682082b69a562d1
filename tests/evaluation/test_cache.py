"""What is kept of a real set: taken over whole or not at all, and only where it was computed alike."""

import os
from pathlib import Path

import pytest
import torch

from ganexp.data.decoding import DecodingError
from ganexp.evaluation import Evaluator, Raw, real_batches
from ganexp.facts import UserError
from tests.composing import measures
from tests.full import on_a_full_disk

NAMES = measures("precision_recall", "density_coverage", "fid")


def points(seed):
    return torch.randn(300, 2, generator=torch.Generator().manual_seed(seed))


def figures(folder):
    evaluator = Evaluator(NAMES, Raw((2,)), samples=300)
    evaluator.see_reals([points(0)], 300, folder=folder, identity="points")
    return evaluator([points(1)])


def test_a_file_of_somebody_else_counts_once(tmp_path, monkeypatch):
    """Its time of last use cannot be set; what was read of it stays what it is."""

    def refused(self):
        raise PermissionError

    first = figures(tmp_path)
    monkeypatch.setattr(Path, "touch", refused)
    monkeypatch.setattr("ganexp.evaluation.evaluator.update", lambda *_: pytest.fail("seen again"))
    recalled = Evaluator(NAMES, Raw((2,)), samples=300)
    recalled.see_reals([points(0)], 300, folder=tmp_path, identity="points")
    monkeypatch.undo()
    assert recalled([points(1)]) == first


def test_a_file_that_is_broken_in_part_leaves_nothing_behind(tmp_path):
    first = figures(tmp_path)
    (file,) = tmp_path.glob("*.pt")
    states = torch.load(file)
    states.popitem()
    torch.save(states, file)
    assert figures(tmp_path) == first


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    first = figures(tmp_path)
    (file,) = tmp_path.glob("*.pt")
    file.unlink()
    os.mkfifo(file)
    assert figures(tmp_path) == first
    assert file.is_file()


@pytest.mark.parametrize(("samples", "half"), [(100, 100), (900, 150)], ids=["enough", "a half at most"])
def test_beside_each_figure_is_that_of_one_half_of_the_data_against_the_other(samples, half, tmp_path):
    names, x = measures("sliced_wasserstein", "kid", "precision_recall"), points(0)
    evaluator = Evaluator(names, Raw((2,)), samples=samples)
    assert {one.real for one in evaluator.keys.values()} == {None}
    evaluator.see_reals(x.split(70), 300, folder=tmp_path, identity="points")
    expected = Evaluator(names, Raw((2,)), samples=half)
    expected.see_reals([x[:half]], half)
    assert {key: one.real for key, one in evaluator.keys.items()} == expected([x[half : 2 * half]])
    assert f"{samples} samples; real data, two halves of {half}: " in evaluator.keys["eval/kid"].meaning
    recalled = Evaluator(names, Raw((2,)), samples=samples)
    recalled.see_reals([], 300, folder=tmp_path, identity="points")
    assert recalled.keys == evaluator.keys
    other = Evaluator(names, Raw((2,)), samples=samples - 60)
    other.see_reals(x.split(70), 300, folder=tmp_path, identity="points")
    assert (other.keys["eval/kid"].real == evaluator.keys["eval/kid"].real) == (half == 150)


def test_a_measure_to_which_half_of_the_data_are_too_few_has_nothing_beside_it():
    evaluator = Evaluator(measures("density_coverage", "sliced_wasserstein"), Raw((2,)), samples=300)
    evaluator.see_reals([points(0)[:9]], 9)
    assert [key for key, one in evaluator.keys.items() if one.real is not None] == ["eval/sliced_wasserstein"]


def test_nor_has_one_that_would_refuse_half_of_the_data_as_a_generated_set():
    for half in (29, 30):  # ten parts of three points have covariances of two features
        evaluator = Evaluator(measures("fid_infinity"), Raw((2,)), samples=300)
        evaluator.see_reals([points(0)[: 2 * half]], 2 * half)
        assert (evaluator.keys["eval/fid_infinity"].real is not None) == (half == 30)


def test_on_a_full_disk_nothing_is_kept_and_nothing_left(tmp_path):
    assert on_a_full_disk(figures, tmp_path, room=1000) == repr(figures(tmp_path / "elsewhere"))
    assert [*tmp_path.iterdir()] == [tmp_path / "elsewhere"]


class Broken(torch.utils.data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise DecodingError("a.png cannot be decoded as an image")


def test_a_real_image_that_cannot_be_decoded_is_named():
    with pytest.raises(UserError, match=r"^a\.png cannot be decoded"):
        next(real_batches(Broken()))
