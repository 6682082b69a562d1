"""The random streams that belong to a whole process: torch's, NumPy's and Python's, as tensors and plain values."""

import random
from typing import Any

import numpy as np
import torch


class GlobalStreams:
    """The positions of the global streams, from which networks with dropout and a user's own data draw."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def state_dict(self) -> dict[str, Any]:
        version, words, gauss = random.getstate()
        numpy: dict[str, Any] = np.random.get_state(legacy=False)  # noqa: NPY002 (others draw from it)
        return {
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            "python": {"version": version, "words": torch.tensor(words), "gauss": gauss},
            "numpy": {
                "name": numpy["bit_generator"],
                "words": torch.from_numpy(numpy["state"]["key"].astype(np.int64)),
                "position": numpy["state"]["pos"],
                "has_gauss": numpy["has_gauss"],
                "gauss": numpy["gauss"],
            },
        }

    def refuse(self, state: dict[str, Any]) -> None:
        """Refuse an invalid state, by setting it on streams that nothing draws from; each raises an error of its own."""
        torch.Generator().set_state(state["torch"])
        if (state["cuda"] is not None) != (self.device.type == "cuda"):
            raise ValueError("it is of another kind of device")
        if state["cuda"] is not None:
            torch.Generator(self.device).set_state(state["cuda"])
        random.Random().setstate(_python(state["python"]))
        numpy = _numpy(state["numpy"])
        if not 0 <= numpy["state"]["pos"] <= len(numpy["state"]["key"]) or numpy["has_gauss"] not in (0, 1):
            raise ValueError("NumPy's stream has an invalid position")  # NumPy does not check it, and would read from there
        np.random.RandomState().set_state(numpy)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        if state["cuda"] is not None:
            torch.cuda.set_rng_state(state["cuda"], self.device)
        random.setstate(_python(state["python"]))
        np.random.set_state(_numpy(state["numpy"]))  # noqa: NPY002


def _python(state: dict[str, Any]) -> tuple[Any, ...]:
    return state["version"], tuple(state["words"].tolist()), state["gauss"]


def _numpy(state: dict[str, Any]) -> dict[str, Any]:
    inner = {"key": state["words"].numpy().astype(np.uint32), "pos": state["position"]}
    named = {"bit_generator": state["name"], "has_gauss": state["has_gauss"], "gauss": state["gauss"]}
    return {**named, "state": inner}
