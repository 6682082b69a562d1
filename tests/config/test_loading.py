"""A generator is loaded from a run as it was trained, and nothing else happens."""

import copy
import json
import shutil

import numpy as np
import pytest
import torch

import ganexp
from ganexp.config.loading import _published, set_of
from ganexp.data import Dataset, Fake
from ganexp.facts import UserError
from ganexp.networks import MLPGenerator
from ganexp.prior import Prior
from ganexp.training import CheckpointError, checkpoint
from ganexp.training.callbacks.evaluation import standing
from tests.composing import composed
from tests.small_runs import CONVOLUTIONAL, SMALL


def run(folder, *further, of=SMALL):
    trainer = ganexp.build(composed(*of, "iterations=3", *further), folder)
    trainer.fit()
    return trainer


LOADED = []


class Drawn(Dataset):
    """Points from the global stream, which follows the run's seed."""

    shape = (2,)

    def load(self):
        LOADED.append(torch.rand(20, *self.shape))
        return LOADED[-1]


def test_the_data_of_a_generator_are_those_that_the_seed_of_its_run_has_drawn(tmp_path, monkeypatch):
    words = (*(one for one in SMALL if not one.startswith("dataset")), "~dataset", f"+dataset={{_target_: {__name__}.Drawn}}")
    ganexp.build(composed(*words, "iterations=1", "sample_every=0", "seed=3"), tmp_path, trust=__name__).fit()
    assert torch.equal(set_of(ganexp.load(tmp_path), trust=__name__)[1], LOADED[0])
    monkeypatch.setattr(Drawn, "shape", (3,))
    with pytest.raises(UserError, match=r"^dataset=\S+ has samples of shape \(3,\) now, and had \(2,\) when"):
        set_of(ganexp.load(tmp_path), trust=__name__)


@pytest.mark.parametrize("classes", [0, 10])
def test_standing_statistics_are_those_of_the_averaged_weights_as_in_an_evaluation(tmp_path, classes):
    digits = (*(one for one in CONVOLUTIONAL if not one.startswith("dataset")), "dataset.image_size=16")
    trainer = run(tmp_path, f"conditional={bool(classes)}".lower(), of=digits)
    plain, settled = ganexp.load(tmp_path), ganexp.load(tmp_path, standing=2)
    name, first = next((name, one) for name, one in plain.network.named_modules() if isinstance(one, torch.nn.BatchNorm2d))
    seen = []
    first.register_forward_pre_hook(lambda _, given: seen.append(given[0].transpose(0, 1).flatten(1).numpy()))
    prior = Prior(3, frequencies=[1.0] * classes or None)  # of the same seed
    with torch.no_grad():
        for z in prior.standing(500).split(250):
            plain(z.values, *z.conditions)
    norm = settled.network.get_submodule(name)
    np.testing.assert_allclose(norm.running_mean, np.mean([one.mean(1) for one in seen], 0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(norm.running_var, np.mean([one.var(1, ddof=1) for one in seen], 0), rtol=1e-4)
    if not classes:
        with torch.no_grad():
            evaluated = standing(trainer.step.average.generator, trainer.gan.prior, 2)
        torch.testing.assert_close([*settled.network.buffers()], [*evaluated.buffers()], rtol=1e-4, atol=1e-6)


def test_statistics_of_no_batch_norm_are_refused(trained):
    with pytest.raises(UserError, match="standing"):
        ganexp.load(trained[0], standing=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder, run(folder)


def test_it_is_the_averaged_generator_ready_to_use(trained):
    folder, trainer = trained
    z = trainer.gan.prior.fixed(4).values
    for place in (folder, str(folder), folder / "checkpoints" / "last.pt", folder / "checkpoints" / "iteration_000000003.pt"):
        loaded = ganexp.load(place)
        assert torch.equal(loaded(z), trainer.step.average.generator(z))
        assert not torch.equal(loaded(z), trainer.gan.generator(z))
        assert not any(module.training for module in loaded.modules())
        assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_without_an_average_it_is_the_generator(tmp_path):
    networks = ["generator=dcgan", "discriminator=dcgan", "discriminator.spectral_norm=true", *CONVOLUTIONAL]
    trainer = run(tmp_path, "average=none", "precision=fp64", of=networks)
    z = trainer.gan.prior.fixed(4).values
    assert torch.equal(ganexp.load(tmp_path)(z), trainer.gan.generator.eval()(z))


def test_samples_are_a_function_of_the_seed_and_leave_the_random_stream_alone(trained):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    loaded = ganexp.load(trained[0])
    first = loaded.sample(600)
    assert torch.equal(before, torch.get_rng_state())
    assert first.shape == (600, 3, 4, 4)
    assert torch.equal(first, loaded.sample(600))
    assert not torch.equal(first, loaded.sample(600, seed=1))
    expected = torch.cat([loaded(loaded.latents([index]).values) for index in range(600)])
    assert torch.allclose(first, expected, atol=1e-6)


def test_the_best_checkpoint_the_plain_weights_and_a_job_of_a_sweep(tmp_path):
    job = tmp_path / "sweep" / "3_width=2"
    trainer = run(job, "keep_best=loss/d", "log_every=1")
    z = torch.zeros(1, 3)
    best = checkpoint.load(job / "checkpoints" / "best.pt")["run"]
    loaded = ganexp.load(job / "checkpoints" / "best.pt")
    assert torch.equal(loaded.network.state_dict()["layers.0.weight"], best["step"]["average"]["generator"]["layers.0.weight"])
    assert loaded.origin.iterations == best["iteration"]
    _, *lines = (job / "metrics.jsonl").read_text().splitlines()  # the first is from before training
    assert loaded.origin.figures["loss/d"] == min(json.loads(line)["loss/d"] for line in lines)
    shutil.copy(job / "checkpoints" / "best.pt", tmp_path / "sweep" / "lone.pt")
    shutil.copy(job / "metrics.jsonl", tmp_path)  # another run's, for all that is known
    assert ganexp.load(tmp_path / "sweep" / "lone.pt").origin.figures == {}
    assert torch.equal(ganexp.load(job, averaged=False)(z), trainer.gan.generator.eval()(z))
    with pytest.raises(UserError, match=r"sweep is a sweep of 1 runs: name one of them, such as .*3_width=2$"):
        ganexp.load(tmp_path / "sweep")


def test_no_data_are_touched_and_nothing_is_printed(tmp_path, monkeypatch, capfd):
    run(tmp_path)
    capfd.readouterr()
    monkeypatch.setattr(Fake, "__init__", lambda *_, **__: pytest.fail("the data set was made"))
    assert ganexp.load(tmp_path).sample(2).shape == (2, 3, 4, 4)
    assert capfd.readouterr() == ("", "")


class Own(MLPGenerator):
    pass


def test_a_generator_of_ones_own_must_be_trusted(tmp_path):
    cfg = composed(*SMALL, "iterations=1")
    cfg.generator._target_ = f"{__name__}.Own"
    ganexp.build(cfg, tmp_path, trust="tests").fit()
    with pytest.raises(UserError, match=r"^generator\._target_=\S+\.test_loading\.Own is not .* add trust=tests \("):
        ganexp.load(tmp_path)
    assert type(ganexp.load(tmp_path, trust=["tests"]).network).__name__ == "Own"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
def test_what_cannot_be_loaded_is_one_sentence(trained, tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        ganexp.load(tmp_path)
    folder, _ = trained
    genuine = checkpoint.load(folder / "checkpoints" / "last.pt")
    place, averaged = "run.step.average.generator", genuine["run"]["step"]["average"]["generator"]
    changes = {
        "does not fit its own configuration": [
            ("config.generator.width", 4000),
            ("shape", [2**40, 3]),
            ("shape", [2**200]),
            (place, {"x": torch.zeros(3)}),
            (place, 3),
            (place, torch.zeros(3)),
            (place, {name: value.to_sparse() for name, value in averaged.items()}),
            (place, {name: value.to("meta") for name, value in averaged.items()}),
            (place, {name: value.double() for name, value in averaged.items()}),
            (place, {name: value * float("nan") for name, value in averaged.items()}),
        ],
        "(does not fit its own configuration|cannot be read as a checkpoint)": [  # by torch 2.15, which does not unpickle it
            (place, {name: torch.nested.nested_tensor([value]) for name, value in averaged.items()}),
        ],
        "which shape": [("shape", [0]), ("shape", [])],
        "without a configuration": [("config", {}), ("shape", None)],
        "latent_dim": [("config.latent_dim", "x"), ("config.latent_dim", 10**12)],
        "generator.width": [("config.generator.width", 10**9), ("config.generator.width", [])],
        r"generator\._target_": [("config.generator._target_", "os.system")],
    }
    for said, tampered in changes.items():
        for key, value in tampered:
            state = copy.deepcopy(genuine)
            inside = state
            *path, last = key.split(".")
            for part in path:
                inside = inside[part]
            inside[last] = value
            torch.save(state, tmp_path / "x.pt")
            with pytest.raises((CheckpointError, UserError), match=rf"\A[^\n]*{said}[^\n]*\Z"):
                ganexp.load(tmp_path / "x.pt")


def test_no_paths_are_passed_on():
    data = {"_target_": "mine.Faces", "root": "/home/someone/faces", "n": 3}
    config = {"seed": 1, "init_from": "/home/someone/run", "dataset": {"path": "/home/someone", "dataset": data}}
    assert _published(config) == {"seed": 1, "dataset": {"dataset": {"_target_": "mine.Faces", "n": 3}}}


@pytest.mark.gpu
def test_a_checkpoint_of_a_gpu_loads_on_a_cpu(tmp_path):
    trainer = run(tmp_path, "device=cuda")
    z = trainer.gan.prior.fixed(4).values
    there = trainer.step.average.generator(z).cpu()
    assert torch.allclose(ganexp.load(tmp_path)(z.cpu()), there, atol=1e-2)  # TF32
    on_gpu = ganexp.load(tmp_path, device="cuda")
    assert on_gpu.sample(2).device.type == "cuda"
