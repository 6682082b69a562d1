"""A CPU stand-in for a CUDA graph: a tape of the tensor operations of a call, played back into the same tensors.

Like a graph, it knows nothing of Python: what is not an operation on tensors does not happen again, what was read stays the
tensor that it was, and a value that crosses to the host cannot be recorded. And like a graph's, its recording leaves no trace.
"""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


class Tapes:
    """Records calls, each on a tape of its own, in the place of `CudaRecorder`."""

    def warm_up(self, call):
        call()

    def record(self, call, streams):
        tape = Tape()
        tape.record(call)
        assert len(tape.operations) > 50
        return tape.replay


class Tape(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations, self.before, self.generators = [], {}, {}

    def record(self, call):
        try:
            with self:
                call()
        finally:
            for storage, content in self.before.values():
                storage.copy_(content)
            for generator, state in self.generators.items():
                generator.set_state(state)

    def replay(self):
        for function, args, kwargs, results in self.operations:
            with torch.no_grad():
                fresh = tree_leaves(function(*args, **kwargs))
            for result, new in zip(results, fresh, strict=True):
                if isinstance(result, Tensor) and new.data_ptr() != result.data_ptr():
                    result.copy_(new)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        generator = kwargs.get("generator")
        if generator is not None and generator not in self.generators:
            self.generators[generator] = generator.get_state()
        for tensor in written(function, args, kwargs):
            storage = tensor.untyped_storage()
            self.before.setdefault(storage.data_ptr(), (storage, storage.clone()))
        out = function(*args, **kwargs)
        self.operations.append((function, *memory((args, kwargs)), tree_leaves(memory(out))))
        return out


def written(function, args, kwargs):
    """Return the tensors that an operation writes into."""
    if function is torch.ops.aten.native_batch_norm.default:
        return tree_leaves(args[3:5])  # its schema does not say so
    arguments = zip(function._schema.arguments, args, strict=False)
    places = [*arguments] + [(a, kwargs.get(a.name)) for a in function._schema.arguments]
    leaves = tree_leaves([value for about, value in places if about.alias_info is not None and about.alias_info.is_write])
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def memory(tree):
    """Return the same with tensors that share its tensors' memory and know nothing of gradients."""
    return tree_map_only(Tensor, Tensor.detach, tree)
