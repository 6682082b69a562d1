"""What a network declares of itself, and what several processes would not train as one does."""

import pytest
from torch import nn

from ganexp.facts import Facts, Misfit
from ganexp.networks import BEGANDiscriminator, MLPDiscriminator, MLPGenerator, StyleGAN2Generator
from ganexp.networks.contract import check, check_kind, declared


def test_any_module_is_a_network_and_declares_the_rest():
    said = declared(nn.Linear(2, 1))
    assert (said.output, said.further, said.reconstruct, said.reads_labels) == ("logit", "", None, False)
    said = declared(BEGANDiscriminator((3, 16, 16), width=2, returns_code=True))
    assert (said.output, said.further, said.reads_labels) == ("energy", "code", False)
    assert said.reconstruct is not None
    assert declared(MLPGenerator).reads_labels


@pytest.mark.parametrize(
    ("kind", "facts", "remedy"),
    [
        (nn.Linear, {"conditional": True}, {"conditional": False}),
        (BEGANDiscriminator, {"pack": 2}, {"pack": 1}),
        (MLPDiscriminator, {"conditional": True, "pack": 2}, None),
    ],
)
def test_classes_of_networks_are_refused_by_what_they_declare(kind, facts, remedy):
    run = Facts(shape=(2,), **facts)
    if remedy is None:
        check_kind(kind, run)
    else:
        with pytest.raises(Misfit) as error:
            check_kind(kind, run)
        assert error.value.remedy == remedy


IMAGE = (1, 16, 16)


class Scaled(nn.BatchNorm1d):
    """A batch norm with a forward of its own."""

    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("network", "batch_size", "fits"),
    [
        (nn.Dropout(0.5), 8, False),
        (nn.Dropout(0.0), 8, True),
        (MLPDiscriminator((2,), width=4, minibatch_deviation=True), 8, True),
        (MLPDiscriminator((2,), width=4, minibatch_deviation=True), 12, False),
        (nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4)), 8, True),
        (nn.Sequential(nn.Linear(2, 4), Scaled(4)), 8, False),
        (StyleGAN2Generator(3, IMAGE, width=4, noise=False, style_mixing=0.5), 8, False),
        (StyleGAN2Generator(3, IMAGE, width=4, noise=True, style_mixing=0.0), 8, False),
        (StyleGAN2Generator(3, IMAGE, width=4, noise=False, style_mixing=0.0), 8, True),
    ],
    ids=["dropout", "none", "whole groups", "torn groups", "batch norm", "one of its own", "mixing", "noise", "neither"],
)
def test_several_processes_train_what_one_does(network, batch_size, fits):
    check(network, Facts(shape=(2,), batch_size=batch_size))
    if fits:
        check(network, Facts(shape=(2,), batch_size=batch_size, processes=2))
    else:
        with pytest.raises(Misfit):
            check(network, Facts(shape=(2,), batch_size=batch_size, processes=2))


def test_groups_of_a_batch_of_gs_own_are_not_torn_either():
    network = MLPDiscriminator((2,), width=4, minibatch_deviation=True)
    check(network, Facts(shape=(2,), batch_size=16, g_batch=8, processes=2))
    with pytest.raises(Misfit, match="batches of 12") as error:
        check(network, Facts(shape=(2,), batch_size=16, g_batch=12, processes=2))
    assert error.value.remedy == {"minibatch_deviation": False, "g_batch": 8}
