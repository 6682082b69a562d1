"""Exports of generators that run without ganexp, each compared with the generator before it is written."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.documents import atomic_write
from ganexp.facts import UserError
from ganexp.printable import one_line
from ganexp.sampling.card import parts
from ganexp.sampling.trained import Trained
from ganexp.streams import stream

Arguments = tuple[Tensor, ...]
Network = Callable[..., Tensor]

METADATA = "ganexp.json"
"""The name under which a file says what it is: an extra file of torch's archives, a metadata property of ONNX."""
EXAMPLES = 3
BATCHES = (1, 2, 7)
"""Sizes of the batches that a file is compared on; none is the size that it was made with."""
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
"""The greatest error of a number, as a share of the largest: 1/80 of a grey level; only the order of additions differs."""


def export(trained: Trained, form: str, path: Path) -> float:
    """Write a generator's network to a file that is called as `network(z)` or `network(z, labels)` on batches of any size.

    A translator's file is called on sources, of the size in training, in place of latents.

    The file is made in memory, where a full disk cannot make torch's C++ abort, and is run on batches of other sizes than it
    was made with.

    Args:
        trained: The generator.
        form: `torchscript` (for C++ and older programs), `torch_export` (for torch's compilers) or `onnx` (for other runtimes).
        path: The file, which is replaced if it exists.

    Returns:
        The largest difference from the generator's samples that was found.

    Raises:
        UserError: The format needs a package that is missing, the network cannot be written in it, or the outputs differ.
        OSError: The file cannot be written.
    """
    write, read = FORMS[form]
    try:
        with _in_silence():
            network = (_Conditional if trained.classes else _Unconditional)(trained.network).eval()
            content = write(network, _arguments(trained, range(EXAMPLES)), {METADATA: json.dumps(described(trained))})
            off, scale = _largest_difference(trained, read(content))
        if not off <= TOLERANCE[trained.dtype] * scale:
            raise UserError(
                f"the {form} file computes samples that are {off:.2g} off the generator's, which reach {scale:.2g}, so it is "
                "not kept"
            )
    except UserError:
        raise
    except Exception as error:  # what exporters raise for a foreign network has no common type
        reason = one_line(error)
        raise UserError(f"the generator cannot be written as {form} ({type(error).__name__}: {reason})") from error
    with atomic_write(path) as file:
        file.write(content)
    return off


def described(trained: Trained) -> dict[str, Any]:
    """Return what an exported file says of itself, as plain values: its arguments, its result, and its training."""
    given = {"source": [*trained.source_shape]} if trained.source_shape else {"z": [trained.latent_dim]}
    arguments = {name: ["n", *shape] for name, shape in given.items()} | ({"labels": ["n"]} if trained.classes else {})
    return {
        "format": "ganexp generator",
        "arguments": arguments,
        "range of sources" if trained.source_shape else "distribution of z": [-1, 1] if trained.source_shape else trained.prior,
        "samples": ["n", *trained.shape],
        "range of samples": [-1, 1] if len(trained.shape) == 3 else "that of the data",
        "classes": [*trained.origin.class_names] or trained.classes,
        "weights": trained.origin.weights,
        "iterations": trained.origin.iterations,
        **parts({"dataset": trained.origin.dataset, **trained.origin.settings}),
    }


class _Unconditional(nn.Module):
    """A wrapper of a network with a signature that exporters can read."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, z: Tensor) -> Tensor:
        return self.network(z)


class _Conditional(_Unconditional):
    def forward(self, z: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]
        return self.network(z, labels)


def _largest_difference(trained: Trained, exported: Network) -> tuple[float, float]:
    """Return the largest difference between samples, and the largest number in those of the generator, both absolute."""
    off, scale = [], []
    for size in BATCHES:
        conditions = _arguments(trained, range(EXAMPLES, EXAMPLES + size))
        with torch.no_grad():
            wanted = trained.network(*conditions)
            output = exported(*conditions)
        if output.shape != wanted.shape:
            raise UserError(f"it makes samples of shape {tuple(output.shape)} where the generator's are {tuple(wanted.shape)}")
        off.append((output - wanted).abs().max())
        scale.append(wanted.abs().max())
    return float(torch.stack(off).max()), float(torch.stack(scale).max())  # NaN if one of them is


def _arguments(trained: Trained, indices: range) -> Arguments:
    if trained.source_shape:
        like = torch.empty(len(indices), *trained.source_shape)
        source = like.uniform_(-1, 1, generator=stream(0, "sources of an export", index=indices.start))
        return (source.to(trained.device, trained.dtype), *trained.labels(indices))
    z = trained.latents(indices)
    return (z.values, *z.conditions)


def _to_torchscript(network: nn.Module, conditions: Arguments, told: dict[str, str]) -> bytes:
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(network, conditions, check_trace=False), file, _extra_files=told)
    return file.getvalue()


def _read_torchscript(content: bytes) -> Network:
    return torch.jit.load(io.BytesIO(content))


def _to_exported(network: nn.Module, conditions: Arguments, told: dict[str, str]) -> bytes:
    file = io.BytesIO()
    torch.export.save(torch.export.export(network, conditions, dynamic_shapes=_batches(conditions)), file, extra_files=told)
    return file.getvalue()


def _read_exported(content: bytes) -> Network:
    return torch.export.load(io.BytesIO(content)).module()


def _batches(conditions: Arguments) -> tuple[dict[int, Any], ...]:
    """Declare the batch size of every argument as not fixed."""
    batch = torch.export.Dim("batch", min=1, max=2**31)  # without an end, torch 2.6 refuses its own guard against 2⁶³ − 1
    return tuple({0: batch} for _ in conditions)


def _to_onnx(network: nn.Module, conditions: Arguments, told: dict[str, str]) -> bytes:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(f"onnx needs {error.name}, which is not installed: pip install onnx onnxscript onnxruntime") from None
    program = torch.onnx.export(
        network,
        conditions,
        input_names=["source" if conditions[0].dim() > 2 else "z", "labels"][: len(conditions)],
        output_names=["samples"],
        dynamo=True,
        dynamic_shapes=_batches(conditions),
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    for key, value in told.items():
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()


def _read_onnx(content: bytes) -> Network:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [argument.name for argument in session.get_inputs()]

    def run(*conditions: Tensor) -> Tensor:
        fed = dict(zip(names, (condition.cpu().numpy() for condition in conditions), strict=True))
        return torch.from_numpy(session.run(None, fed)[0]).to(conditions[0].device)

    return run


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
    """Suppress the exporters' debugging messages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # torch.jit is deprecated; programs that read its files are not
            yield
    finally:
        logging.disable(before)


FORMS: dict[str, tuple[Callable[[nn.Module, Arguments, dict[str, str]], bytes], Callable[[bytes], Network]]] = {
    "torchscript": (_to_torchscript, _read_torchscript),
    "torch_export": (_to_exported, _read_exported),
    "onnx": (_to_onnx, _read_onnx),
}
