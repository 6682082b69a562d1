"""Which checkpoints stay: the newest ones, and the best."""

import torch

from ganexp.training import checkpoint
from tests.training.test_resume import overrides, rows, trained


def test_the_newest_checkpoints_stay_and_last_is_the_newest(tmp_path):
    trained(tmp_path, [*overrides("detach"), "keep_checkpoints=3"], 20)
    folder = tmp_path / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == [
        *(f"iteration_{i:09d}.pt" for i in (15, 18, 20)),
        "last.pt",
    ]
    assert checkpoint.load(folder / "last.pt")["run"]["iteration"] == 20


def test_the_best_checkpoint_stays_and_resuming_knows_how_good_it_was(tmp_path):
    settings = [*overrides("softmaxgan"), "log_every=1", "keep_best=softmaxgan/d_excess"]
    whole = trained(tmp_path / "whole", settings, 20)
    trained(tmp_path / "parts", settings, 20, stop_after=11)
    resumed = trained(tmp_path / "parts", settings, 20, resume=True)
    values = [row["softmaxgan/d_excess"] for row in rows(tmp_path / "whole")]
    assert whole.checkpoints.lowest == resumed.checkpoints.lowest == min(values)
    for place in ("whole", "parts"):
        best = checkpoint.load(tmp_path / place / "checkpoints" / "best.pt")["run"]
        assert (best["iteration"], best["checkpoints"]["lowest"]) == (1 + values.index(min(values)), min(values))


def test_a_checkpoint_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch, caplog):
    real, failing = torch.save, [6, 9]

    def save(values, file):
        if values["run"]["iteration"] in failing:
            file.write(b"half")
            raise OSError(28, "No space left on device")
        real(values, file)

    monkeypatch.setattr(torch, "save", save)
    trained(tmp_path, overrides("detach"), 11, stop_after=10)
    assert caplog.text.count("No space left on device") == 2
    assert checkpoint.load(tmp_path / "checkpoints" / "last.pt")["run"]["iteration"] == 3
    assert not list(tmp_path.glob("checkpoints/*.unfinished"))
