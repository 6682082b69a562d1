"""Claims 1 to 4: PyTorch's errors and results for ways of sharing one fake batch between two updates."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from experiments.finding import Finding, Verdict
from ganexp.losses import LSGAN, WGAN, Hinge, Loss, Minimax, NonSaturating, SoftmaxGAN
from ganexp.networks import MLPDiscriminator, MLPGenerator
from measuring.markdown import table

RATE = 0.1
CODE = """\
```python
{code}
```

```text
{answer}
```
"""


def neither_detached_nor_retained() -> Finding:
    """Claim 1: D's backward pass spends the graph that G's needs."""
    generator, discriminator, _, optimizer_d = _networks()
    fake = generator(torch.randn(4, 3))
    (-logsigmoid(-discriminator(fake)).mean()).backward()
    optimizer_d.step()
    answer = _answer(lambda: (-logsigmoid(discriminator(fake)).mean()).backward())
    code = "d_loss(D(fake)).backward()\noptimizer_D.step()\ng_loss(D(fake)).backward()  # fails"
    return Finding(
        "Updating D and then G from the same fake batch, with neither `detach` nor `retain_graph`, fails.",
        Verdict.CONFIRMED if "second time" in answer else Verdict.REFUTED,
        "PyTorch refuses G's backward pass, since D's has freed the graph from the latents to the fakes."
        if "second time" in answer
        else f"PyTorch answered: {answer}",
        CODE.format(code=code, answer=answer),
    )


def scores_kept_over_a_step() -> Finding:
    """Claim 2: G's loss through scores that are older than D's weights."""
    generator, discriminator, _, optimizer_d = _networks()
    scores = discriminator(generator(torch.randn(4, 3)))
    (-logsigmoid(-scores).mean()).backward(retain_graph=True)
    optimizer_d.step()
    answer = _answer(lambda: (-logsigmoid(scores).mean()).backward())
    refused = "inplace operation" in answer
    code = (
        "scores = D(fake)\nd_loss(scores).backward(retain_graph=True)\noptimizer_D.step()\n"
        "g_loss(scores).backward()  # where it fails\noptimizer_G.step()"
    )
    from_old, from_new = _what_it_would_be_without_the_check()
    unchecked = (
        "Before version 1.5 an optimiser's step escaped PyTorch's check of modified tensors. Stepping D behind its back "
        f"(through `.data`, one SGD step at rate {RATE:g}) shows what G learnt from in those versions: a gradient that lies "
        f"{from_old:.1%} off the one at D's old weights (what `joint` takes) and {from_new:.1%} off the one at D's new weights "
        "(what `detach` takes), without an error: activations of the old D were combined with weights of the new one."
    )
    return Finding(
        "Keeping D's scores with `retain_graph=True`, stepping D, then back-propagating G's loss through them works.",
        Verdict.REFUTED if refused else Verdict.CONFIRMED,
        "PyTorch refuses G's backward pass (not `optimizer_G.step()`), because D's step has changed weights that the graph "
        "needs; both backward passes before either step, `strategy=joint`, are what was meant."
        if refused
        else f"PyTorch answered: {answer}",
        CODE.format(code=code, answer=answer) + "\n" + unchecked,
    )


def scores_of_a_detached_batch() -> Finding:
    """Claim 3: what is detached for D teaches G nothing."""
    generator, discriminator, _, _ = _networks()
    scores = discriminator(generator(torch.randn(4, 3)).detach())
    (-logsigmoid(scores).mean()).backward()
    gradients = [p.grad for p in generator.parameters()]
    reached = sum(gradient is not None for gradient in gradients)
    code = "scores = D(fake.detach())\ng_loss(scores).backward()\n[p.grad for p in G.parameters()]"
    return Finding(
        "Feeding D a detached batch, and then back-propagating G's loss through *those* scores, trains G.",
        Verdict.CONFIRMED if reached else Verdict.REFUTED,
        f"{reached} of G's {len(gradients)} parameters got a gradient; PyTorch raises no error, and an optimiser skips "
        "parameters without one.",
        CODE.format(code=code, answer=gradients),
    )


def gradient_of_d_with_and_without_detach() -> Finding:
    """Claim 4: detaching changes what flows into G, and nothing else."""
    rows, largest = [], 0.0
    losses: list[Loss] = [NonSaturating(), Minimax(), LSGAN(), Hinge(), WGAN(), SoftmaxGAN()]
    for loss, dtype in itertools.product(losses, (torch.float32, torch.float64)):
        generator, discriminator, _, _ = _networks(dtype)
        x, fake = torch.randn(64, 2, dtype=dtype), generator(torch.randn(64, 3, dtype=dtype))
        with_it, without = (
            torch.autograd.grad(loss.d_loss(discriminator(x), discriminator(seen)), list(discriminator.parameters()))
            for seen in (fake.detach(), fake)
        )
        difference = max(float((a - b).abs().max()) for a, b in zip(with_it, without, strict=True))
        largest = max(largest, difference)
        rows.append(
            {"loss": type(loss).__name__, "precision": str(dtype).removeprefix("torch."), "largest difference": difference}
        )
    return Finding(
        "`detach()` leaves D's own gradient untouched.",
        Verdict.CONFIRMED if largest == 0 else Verdict.REFUTED,
        f"Over {len(rows)} cases, the largest difference between D's gradients with and without it is {largest:g}.",
        table(rows),
    )


def _networks(dtype: torch.dtype = torch.float32) -> tuple[nn.Module, nn.Module, torch.optim.SGD, torch.optim.SGD]:
    torch.manual_seed(0)
    generator, discriminator = MLPGenerator(3, (2,), width=32), MLPDiscriminator((2,), width=32)
    optimizer_g, optimizer_d = (torch.optim.SGD(net.to(dtype).parameters(), lr=RATE) for net in (generator, discriminator))
    return generator, discriminator, optimizer_g, optimizer_d


def _answer(backward: Callable[[], None]) -> str:
    try:
        backward()
    except RuntimeError as error:
        return f"RuntimeError: {error}"
    return "no error"


def _what_it_would_be_without_the_check() -> tuple[float, float]:
    """Return how far G's gradient lies from those at D's old and new weights, relative to each, if D's step goes unseen."""
    generator, discriminator, _, _ = _networks()
    own = list(generator.parameters())
    fake = generator(torch.randn(64, 3))
    scores = discriminator(fake)
    old = torch.autograd.grad(-logsigmoid(scores).mean(), own, retain_graph=True)
    by_d = torch.autograd.grad(-logsigmoid(-scores).mean(), list(discriminator.parameters()), retain_graph=True)
    for parameter, gradient in zip(discriminator.parameters(), by_d, strict=True):
        parameter.data -= RATE * gradient
    kept = torch.autograd.grad(-logsigmoid(scores).mean(), own, retain_graph=True)
    new = torch.autograd.grad(-logsigmoid(discriminator(fake)).mean(), own)
    return _distance(kept, old), _distance(kept, new)


def _distance(found: tuple[Tensor, ...], true: tuple[Tensor, ...]) -> float:
    flat, goal = (torch.cat([tensor.flatten() for tensor in tensors]) for tensors in (found, true))
    return float((flat - goal).norm() / goal.norm())
