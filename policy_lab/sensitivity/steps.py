"""How a training of CTGAN is watched, kept at checkpoints and gone on with, though the library offers none of it.

Its fit() builds networks and optimizers anew and tells nobody. But every optimizer calls a hook after each step, and brings
along what it optimizes. A checkpoint is made after the first step of an epoch. To go on, fit() is begun again with the same seed for
the epochs that are left; after its own first step all that the step changed takes the values of the checkpoint: weights, both
optimizers' moments, and both generators of randomness. The rest is as if nobody had stopped it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ctgan import CTGAN
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Progress = Callable[[int, int], None]


class Steps:
    """The hook that an optimizer calls after each of its steps."""

    def __init__(
        self,
        model: CTGAN,
        steps_per_epoch: int,
        epochs: int,
        checkpoint: Arrays | None,
        keep: Callable[[int, Callable[[], Arrays]], None],
        progress: Progress,
    ) -> None:
        self._model = model
        self._steps_per_epoch = steps_per_epoch
        self._epochs = epochs
        self._checkpoint = checkpoint
        self._keep = keep
        self._progress = progress
        self._done = 0
        self._judge: Any = None

    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if not self._is_of_generator(optimizer):
            self._judge = optimizer
            return
        self._done += 1
        if self._checkpoint is not None:
            self._done = go_back_to(self._checkpoint, self._model, optimizer, self._judge)
            self._checkpoint = None
            return
        epoch, step = divmod(self._done - 1, self._steps_per_epoch)
        if step == 0:
            self._progress(epoch, self._epochs)
            self._keep(epoch, lambda: checkpoint_of(self._model, optimizer, self._judge, self._done))

    def _is_of_generator(self, optimizer: Any) -> bool:
        return optimizer.param_groups[0]["params"][0] is next(self._model._generator.parameters())  # noqa: SLF001 - has no public name


def weights_of(model: CTGAN) -> Arrays:
    """Weights of a trained generator."""
    return {name: _array(value) for name, value in model._generator.state_dict().items()}  # noqa: SLF001 - as above


def set_weights(model: CTGAN, weights: Arrays) -> None:
    """The generator with these weights.

    Raises:
        RuntimeError: it has another shape.
    """
    model._generator.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})  # noqa: SLF001 - as above


def checkpoint_of(model: CTGAN, generator: Any, judge: Any, done: int) -> Arrays:
    """Everything that a step changes, as arrays."""
    state: Any = np.random.get_state(legacy=True)  # noqa: NPY002 - CTGAN draws from it
    _, keys, position, has_gauss, gauss = state
    return {
        "done": np.array(done),
        "torch": _array(torch.get_rng_state()),
        "numpy": np.asarray(keys),
        "numpy.rest": np.array([position, has_gauss, gauss], dtype=np.float64),
        **{f"weights.{name}": value for name, value in weights_of(model).items()},
        **_optimizer("generator", generator),
        **_optimizer("judge", judge),
    }


def go_back_to(arrays: Arrays, model: CTGAN, generator: Any, judge: Any) -> int:
    """Put everything back as it was at a checkpoint; gives the steps that had been done."""
    set_weights(model, {n.removeprefix("weights."): v for n, v in arrays.items() if n.startswith("weights.")})
    _set_optimizer("generator", generator, arrays)
    _set_optimizer("judge", judge, arrays)
    position, has_gauss, gauss = arrays["numpy.rest"]
    np.random.set_state(("MT19937", arrays["numpy"], int(position), int(has_gauss), float(gauss)))  # noqa: NPY002 - as above
    torch.set_rng_state(torch.from_numpy(arrays["torch"]))
    return int(arrays["done"])


def epochs_of(arrays: Arrays, steps_per_epoch: int) -> int:
    """How many whole epochs lie before a checkpoint."""
    return (int(arrays["done"]) - 1) // steps_per_epoch


def packed(arrays: Arrays) -> bytes:
    """Arrays as the bytes of an `.npz` file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpacked(path: Path) -> Arrays:
    """The arrays of such a file; nothing in it is executed.

    Raises:
        ValueError: it is damaged, or holds anything else than arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(str(error)) from error


def _array(tensor: Any) -> NDArray[Any]:
    return np.array(tensor.detach().cpu().numpy())


def _optimizer(name: str, optimizer: Any) -> Arrays:
    found = {}
    for number, weight in enumerate(optimizer.param_groups[0]["params"]):
        found[f"{name}.{number}.value"] = _array(weight)
        for key, moment in optimizer.state[weight].items():
            found[f"{name}.{number}.{key}"] = _array(moment)
    return found


def _set_optimizer(name: str, optimizer: Any, arrays: Arrays) -> None:
    with torch.no_grad():
        for number, weight in enumerate(optimizer.param_groups[0]["params"]):
            weight.copy_(torch.from_numpy(arrays[f"{name}.{number}.value"]))
            for key, moment in optimizer.state[weight].items():
                moment.copy_(torch.from_numpy(arrays[f"{name}.{number}.{key}"]))
