"""Which checkpoints stay: the newest ones, and the best."""

import pytest

from ganexp import build
from ganexp.cli.line import read_line
from ganexp.cli.run import run
from ganexp.documents import write_state
from ganexp.training import Checkpoints, checkpoint
from tests.composing import composed
from tests.small_runs import SMALL, rows, trained


def test_the_newest_checkpoints_stay_and_last_is_the_newest(tmp_path):
    trained(tmp_path, [*SMALL, "keep_checkpoints=3"], 20)
    folder = tmp_path / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == [*(f"iteration_{i:09d}.pt" for i in (15, 18, 20)), "last.pt"]
    assert checkpoint.load(folder / "last.pt")["run"]["iteration"] == 20


@pytest.mark.parametrize(("kept", "files"), [("null", ["last.pt"]), ("loss/g", ["last.pt", "best.pt"])])
def test_a_run_that_goes_on_reads_each_file_once(kept, files, tmp_path, monkeypatch):
    settings = [*SMALL, "log_every=3", f"keep_best={kept}"]
    trained(tmp_path, settings, 3)
    paths, read_state = [], checkpoint.read_state

    def recorded(path):
        paths.append(path.name)
        return read_state(path)

    monkeypatch.setattr(checkpoint, "read_state", recorded)
    run(read_line([f"resume={tmp_path}", "iterations=4"]))
    assert paths == files


def test_keeping_none_of_them_is_refused():
    with pytest.raises(ValueError, match=r"^keep must be at least 1; got 0$"):
        Checkpoints(keep=0)


def test_a_file_that_a_person_has_put_beside_them_stays(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    own = [folder / f"iteration_{name}.pt" for name in ("000000003_good", "of_the_paper")]
    for path in own:
        path.touch()
    trainer = build(composed(*SMALL, "iterations=9"), tmp_path)
    trainer.fit()
    assert all(path.exists() for path in own)


def test_going_on_from_an_earlier_checkpoint_leaves_none_of_the_abandoned_course(tmp_path):
    settings = [*SMALL, "keep_checkpoints=3"]
    trained(tmp_path, settings, 12)
    folder = tmp_path / "checkpoints"
    trainer = build(composed(*settings, "iterations=7"), tmp_path, checkpoint=folder / "iteration_000000006.pt")
    assert rows(tmp_path)[-1]["progress/iteration"] <= 6
    assert checkpoint.load(folder / "last.pt")["run"]["iteration"] == 6  # to which a run is rolled back, or resumed if killed
    trainer.fit()
    assert sorted(path.name for path in folder.iterdir()) == [*(f"iteration_{i:09d}.pt" for i in (6, 7)), "last.pt"]
    assert checkpoint.load(folder / "last.pt")["run"]["iteration"] == 7


def test_what_could_not_be_written_is_not_the_best(tmp_path, caplog):
    trainer = build(composed(*SMALL, "keep_best=loss/d", "iterations=9"), tmp_path)
    trainer.checkpoints.folder.checkpoints.touch()  # a file where the folder should be
    trainer.checkpoints.write_if_due(trainer, {"loss/d": 1.0})
    assert "No checkpoint at iteration 0" in caplog.text
    assert trainer.checkpoints.lowest == float("inf")
    trainer.checkpoints.folder.checkpoints.unlink()
    trainer.checkpoints.write_if_due(trainer, {"loss/d": 2.0})
    assert checkpoint.load(tmp_path / "checkpoints" / "best.pt")["run"]["checkpoints"]["lowest"] == 2
    trainer.fit()


def test_the_best_checkpoint_stays_and_resuming_knows_how_good_it_was(tmp_path):
    settings = [*SMALL, "loss=softmaxgan", "strategy=joint", "g_steps=2", "log_every=1", "keep_best=softmaxgan/d_excess"]
    whole = trained(tmp_path / "whole", settings, 20)
    trained(tmp_path / "parts", settings, 20, stop_after=11)
    resumed = trained(tmp_path / "parts", settings, 20, resume=True)
    values = [row["softmaxgan/d_excess"] for row in rows(tmp_path / "whole")[1:]]  # the first is from before training
    assert whole.checkpoints.lowest == resumed.checkpoints.lowest == min(values)
    for place in ("whole", "parts"):
        best = checkpoint.load(tmp_path / place / "checkpoints" / "best.pt")["run"]
        assert (best["iteration"], best["checkpoints"]["lowest"]) == (1 + values.index(min(values)), min(values))


def test_a_run_that_was_begun_before_the_best_iteration_was_noted_goes_on_and_knows_its_best_figure(tmp_path):
    settings = [*SMALL, "log_every=1", "keep_best=loss/d"]
    trained(tmp_path, settings, 4)
    last, best = (tmp_path / "checkpoints" / name for name in ("last.pt", "best.pt"))
    for path in (last, best):
        state = checkpoint.load(path)
        del state["run"]["checkpoints"]["best_at"]
        state["run"]["checkpoints"]["lowest"] = -9.0
        write_state(path, state)
    notes = build(composed(*settings, "iterations=6"), tmp_path, checkpoint=last).fit()["notes"]
    assert f"Best loss/d: -9, in {best}." in notes


def test_going_on_from_an_earlier_checkpoint_knows_which_value_the_best_checkpoint_has(tmp_path):
    settings = [*SMALL, "log_every=1", "keep_best=loss/d", "keep_checkpoints=9"]
    trained(tmp_path, settings, 9)
    best = tmp_path / "checkpoints" / "best.pt"
    state = checkpoint.load(best)
    state["run"]["checkpoints"] = {"lowest": -9.0, "best_at": 8}  # beyond where the run goes on
    write_state(best, state)
    trainer = build(composed(*settings, "iterations=5"), tmp_path, checkpoint=best.with_name("iteration_000000003.pt"))
    assert f"Best loss/d: -9, at iteration 8, in {best}." in trainer.fit()["notes"]
    assert checkpoint.load(best)["run"]["checkpoints"]["lowest"] == -9
