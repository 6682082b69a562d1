"""`dataset=shards` in whole runs: the same wherever the images lie, resumed, conditional, and in several processes."""

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.config.schema import ConfigError
from tests.composing import composed
from tests.data.tars import written
from tests.small_runs import SMALL

RUN = [one for one in SMALL if not one.startswith("dataset")]
RUN += ["dataset=shards", "dataset.image_size=8", "batch_size=6", "iterations=8", "sample_every=0", "log_every=2", "workers=0"]


def weights(trainer):
    return torch.cat([one.detach().flatten() for one in trainer.gan.generator.parameters()])


@pytest.mark.slow
def test_a_run_is_the_same_streamed_resident_and_resumed(tmp_path):
    path = written(tmp_path / "shards", n=17)[0]
    kinds = {"streamed": ["feed=streamed"], "resident": ["feed=resident"]}
    trained = {}
    for name, kind in kinds.items():
        trainer = build(composed(*RUN, f"dataset.path='{path}'", "flip=true", *kind), tmp_path / name)
        trainer.fit()
        trained[name] = weights(trainer)
    assert torch.equal(trained["streamed"], trained["resident"])
    settings = composed(*RUN, f"dataset.path='{path}'", "flip=true", "feed=streamed", "iterations=3")
    build(settings, tmp_path / "half").fit()
    moved = tmp_path / "elsewhere"
    (tmp_path / "shards").rename(moved)
    settings = composed(*RUN, f"dataset.path='{moved}/train-*.tar'", "flip=true", "feed=streamed")
    trainer = build(settings, tmp_path / "half", checkpoint=tmp_path / "half" / "checkpoints" / "last.pt")
    trainer.fit()
    assert torch.equal(weights(trainer), trained["streamed"])


def test_labels_condition_the_networks_or_are_missed_in_a_sentence(tmp_path):
    labelled, without = written(tmp_path / "a")[0], written(tmp_path / "b", labelled=False)[0]
    assert check(composed(*RUN, f"dataset.path='{labelled}'", "conditional=true")).facts.classes == 3
    with pytest.raises(ConfigError, match=r"^dataset=shards has no class labels .*conditional=false"):
        check(composed(*RUN, f"dataset.path='{without}'", "conditional=true"))
    with pytest.raises(ConfigError, match=r"^dataset=shards: path should name tar files, .* matches none\.$"):
        check(composed(*RUN, f"dataset.path={tmp_path}/none-*.tar"))
    (tmp_path / "b" / "train-001.tar").write_bytes(b"no tar file" * 100)
    with pytest.raises(ConfigError, match=r"^dataset: the shard .*train-001.tar is no tar file .*\.$"):
        check(composed(*RUN, f"dataset.path='{without}'", "conditional=true"))
    with pytest.raises(ConfigError, match=r"^dataset: the shard .*train-001.tar is no tar file .*\.$"):
        build(composed(*RUN, f"dataset.path='{without}'"))
