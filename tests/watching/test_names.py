"""The lines that try another rule in a watched script use the script's own names."""

import torch
from torch import nn
from torch.nn.functional import softplus

from ganexp import watch


class Trainer:
    def __init__(self):
        self.netG = nn.Linear(3, 4)
        self.scores = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])
        self.opt_g = torch.optim.SGD(self.netG.parameters(), 0.1)
        self.opt_d = torch.optim.SGD(self.scores.parameters(), 0.1)

    def fit(self, iterations):
        optimizer = self.opt_d
        for _ in range(iterations):
            fake = self.netG(torch.randn(5, 3))
            optimizer.zero_grad()
            sum((softplus(D(fake.detach())) + softplus(-D(torch.randn(5, 4)))).mean() for D in self.scores).backward()
            optimizer.step()
            self.opt_g.zero_grad()
            sum(softplus(-D(fake)).mean() for D in self.scores).backward()
            self.opt_g.step()


def test_networks_and_optimizers_have_the_names_that_the_loop_gives_them():
    trainer = Trainer()
    with watch() as report:
        trainer.fit(2)
    assert report.arguments == ["self.netG", "self.scores", "self.opt_g", "optimizer"]
    assert "ganexp.Game(self.netG, self.scores, self.opt_g, optimizer, generate=…" in str(report)


def test_names_that_are_not_known_have_a_usual_one_in_their_place():
    def loop(parts):
        for _ in range(2):
            fake = parts[0](torch.randn(5, 3))
            parts[3].zero_grad()
            (softplus(parts[1](fake.detach())) + softplus(-parts[1](torch.randn(5, 4)))).mean().backward()
            parts[3].step()
            parts[2].zero_grad()
            softplus(-parts[1](fake)).mean().backward()
            parts[2].step()

    networks = nn.Linear(3, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.SGD(network.parameters(), 0.1) for network in networks]
    with watch() as report:
        loop([*networks, *optimizers])
    assert report.arguments == ["G", "D", "optimizer_G", "optimizer_D"]
