"""Runs on a GPU compared with the limits of the chip."""

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.section import Section
from ganexp.cli.commands.compare.cases import CASES, trainer_of
from ganexp.compare.racing import Contender, seconds_of
from ganexp.gan import GAN
from ganexp.instruments.counting import LiveActivations, operations, weights_of
from measuring.markdown import table

SETTINGS = {"default": (), "bf16": ("precision=bf16",)}


def limits() -> Section | None:
    """Compare iterations with their kernels alone, and with the rates of large products and copies on the same chip."""
    if not torch.cuda.is_available():
        return None
    flops, bytes_per_s = _product_rate(), _copy_rate()
    rows = []
    for case in CASES:
        for name, settings in SETTINGS.items():
            eager = trainer_of(*CASES[case], *settings, "cuda_graph=false")
            eager_step = Contender.of(eager).step
            work, moved = operations(eager_step), _least_bytes(eager.gan, eager_step)
            step = Contender.of(trainer_of(*CASES[case], *settings)).step
            for _ in range(10):
                step()
            seconds = _seconds(step, 50)
            rows.append(
                {
                    "case": case,
                    "settings": name,
                    "ms": 1000 * seconds,
                    "kernels over all": _kernel_s(step) / seconds,
                    "of the bf16 rate": work / seconds / flops,
                    "of the memory rate, at least": moved / seconds / bytes_per_s,
                }
            )
    return Section(
        "How near the chip's limits",
        f"This chip multiplied 8192×8192 bf16 matrices at {flops / 1e12:.0f} Tflop/s and copied at {bytes_per_s / 1e12:.2f} "
        "TB/s. *Kernels over all* is the time that the profiler finds in kernels over the time of iterations: 1 leaves "
        "nothing to the host. What moves is at least every parameter, gradient and moment once, and every kept activation "
        "twice.\n\n" + table(rows),
    )


def _product_rate() -> float:
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    a @ b
    return 2 * 8192**3 / min(_seconds(lambda: a @ b, 10) for _ in range(5))


def _copy_rate() -> float:
    source = torch.empty(2**30, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * 2**30 / min(_seconds(lambda: target.copy_(source), 10) for _ in range(5))


def _seconds(call: Callable[[], object], times: int) -> float:
    """Return the mean seconds of a call, over several in a row."""
    return seconds_of(call, times, torch.device("cuda")) / times


def _kernel_s(step: Callable[[], object]) -> float:
    iterations = 10
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU], acc_events=True) as found:
        for _ in range(iterations):
            step()
        torch.cuda.synchronize()
    kernels = [event for event in found.key_averages() if event.device_type.name == "CUDA" and not event.is_user_annotation]
    return sum(event.self_device_time_total for event in kernels) / 1e6 / iterations  # host operations contain their kernels


def _least_bytes(gan: GAN, step: Callable[[], object]) -> int:
    with LiveActivations(weights_of(gan.generator, gan.discriminator)) as activations:
        step()
    parameters = sum(p.numel() * p.element_size() for net in (gan.generator, gan.discriminator) for p in net.parameters())
    return 7 * parameters + 2 * activations.peak  # read and write weight and two moments, read the gradient
