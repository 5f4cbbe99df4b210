"""A CTGAN that is trained on a table, and kept as numbers alone.

CTGAN's own files are pickles, and loading a pickle executes its content. Here a model is a file of arrays, read without pickle,
and model.json beside it, which names the table, the training and the versions. CTGAN's knowledge of single columns before training
(clusters and categories) is not kept but learned again, which takes seconds. So a model is loaded with its own table only.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import joblib
import numpy as np
import pandas as pd
import torch
from ctgan import CTGAN
from torch.optim.optimizer import register_optimizer_step_post_hook

from broker_common.language import phrase, said
from broker_common.query.dictionary import shown
from policy_lab.arrays import Reals
from policy_lab.sensitivity import texts
from policy_lab.sensitivity.licence import LICENSED
from policy_lab.sensitivity.steps import Arrays, Progress, Steps, epochs_of, packed, set_weights, unpacked, weights_of
from policy_lab.sensitivity.table import Table, wrong
from policy_lab.standing import make_private_folder, write_private

ABOUT: Final = "model.json"
WEIGHTS: Final = "weights.npz"
CHECKPOINT: Final = "checkpoint.npz"
# Every category is an input and an output of the network.
_MOST_CATEGORIES = 500
# CTGAN's own default, and the rows of one step.
_BATCH_ROWS = 500
# Epochs between two checkpoints.
_CHECKPOINT_EPOCHS = 5


@dataclass(frozen=True, slots=True)
class Training:
    """How a model is trained."""

    epochs: int
    seed: int


class Model:
    """A trained CTGAN of one table."""

    def __init__(self, model: CTGAN, columns: Sequence[str]) -> None:
        self._model = model
        self._columns = columns

    def sample(self, rows: int, seed: int) -> dict[str, Reals]:
        """So many generated rows: their columns of numbers, with NaN where a value is missing."""
        self._model.set_random_state(seed)
        with _quietly():
            frame = self._model.sample(rows)
        return {name: _with_gaps(frame, number) for number, name in enumerate(self._columns)}


def trained(table: Table, training: Training, folder: Path, progress: Progress, tell: Callable[[str], None]) -> Model:
    """The model in this folder if it is of this table and training; otherwise it is trained, from a checkpoint if there is one.

    Raises:
        InvalidRequestError: SENSITIVITY_REFUSED if the folder holds the model of another table or training.
    """
    make_private_folder(folder)
    about = {**_about(table), "epochs": training.epochs, "seed": training.seed}
    if (folder / ABOUT).exists() and _read_about(folder) != about:
        raise wrong(str(folder), texts.OTHER_MODEL, texts.OTHER_MODEL_REMEDY)
    if (folder / WEIGHTS).exists():
        tell(said(texts.MODEL_LOADED, folder=str(folder)))
        return load(table, folder)
    write_private(folder / ABOUT, json.dumps(about, indent=1).encode())
    model = _train(table, training, folder, progress, tell)
    write_private(folder / WEIGHTS, packed(weights_of(model)))
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return Model(model, list(table.numbers))


def load(table: Table, folder: Path) -> Model:
    """The model that was saved in this folder, for the table that it was trained on.

    Raises:
        InvalidRequestError: SENSITIVITY_REFUSED if it is of another table or of other versions, not whole, or damaged.
    """
    about = _read_about(folder)
    if {name: about.get(name) for name in ("table", "columns", "versions")} != _about(table):
        raise wrong(str(folder), texts.MODEL_OF_OTHER_TABLE, texts.MODEL_OF_OTHER_TABLE_REMEDY)
    weights = _unpacked(folder / WEIGHTS)
    model = _ctgan(0, about["seed"])
    _fit(model, table)
    try:
        set_weights(model, weights)
    except RuntimeError as error:
        raise wrong(str(folder / WEIGHTS), texts.MODEL_DAMAGED, texts.MODEL_DAMAGED_REMEDY) from error
    return Model(model, list(table.numbers))


def training_of(folder: Path) -> Training:
    """How the model in this folder was trained."""
    about = _read_about(folder)
    return Training(about["epochs"], about["seed"])


def _train(table: Table, training: Training, folder: Path, progress: Progress, tell: Callable[[str], None]) -> CTGAN:
    steps_per_epoch = max(1, table.rows // _BATCH_ROWS)
    checkpoint, done = None, 0
    if (folder / CHECKPOINT).exists():
        checkpoint = _unpacked(folder / CHECKPOINT)
        done = epochs_of(checkpoint, steps_per_epoch)
        tell(said(texts.RESUMED, done=done, epochs=training.epochs))

    def keep(epoch: int, arrays: Callable[[], Arrays]) -> None:
        if epoch and epoch % _CHECKPOINT_EPOCHS == 0:
            write_private(folder / CHECKPOINT, packed(arrays()))

    model = _ctgan(training.epochs - done, training.seed)
    hook = register_optimizer_step_post_hook(Steps(model, steps_per_epoch, training.epochs, checkpoint, keep, progress))
    try:
        _fit(model, table)
    finally:
        hook.remove()
    progress(training.epochs, training.epochs)
    return model


def _ctgan(epochs: int, seed: int) -> CTGAN:
    # The same seed gives the same model on any number of processors, and small networks are many times as fast so.
    torch.set_num_threads(1)
    model = CTGAN(epochs=epochs, batch_size=_BATCH_ROWS, enable_gpu=False)
    model.set_random_state(seed)
    return model


def _fit(model: CTGAN, table: Table) -> None:
    frame = _frame(table)
    # In one process: the library's own worker processes bring no speed to what is left of it.
    with _quietly(), joblib.parallel_config(backend="sequential"):
        model.fit(frame, discrete_columns=[name for name in frame.columns if not name.startswith("number")])


def _frame(table: Table) -> pd.DataFrame:
    """The table as CTGAN takes it: numbers without gaps, and for each column that has some a column that says where they are."""
    columns: dict[str, Any] = {}
    for number, values in enumerate(table.numbers.values()):
        gaps = np.isnan(values)
        columns[f"number {number}"] = np.where(gaps, float(np.nanmean(values)), values)
        if gaps.any():
            columns[f"gap {number}"] = np.where(gaps, "yes", "no")
    for number, (name, words) in enumerate(table.words.items()):
        categories = len(set(words))
        if categories > _MOST_CATEGORIES:
            problem = phrase(texts.MANY_CATEGORIES, column=shown(name), found=categories, most=_MOST_CATEGORIES)
            raise wrong(table.file, problem, texts.MANY_CATEGORIES_REMEDY)
        columns[f"word {number}"] = list(words)
    return pd.DataFrame(columns)


def _with_gaps(frame: pd.DataFrame, number: int) -> Reals:
    values = frame[f"number {number}"].to_numpy(dtype=np.float64)
    gaps = f"gap {number}"
    return np.where(frame[gaps].to_numpy() == "yes", np.nan, values) if gaps in frame else values


def _about(table: Table) -> dict[str, Any]:
    return {
        "table": table.digest,
        "columns": {"numbers": list(table.numbers), "words": list(table.words)},
        "versions": {name: version(name) for name in (*LICENSED, "torch")},
    }


def _read_about(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / ABOUT).read_bytes())
    except (OSError, ValueError) as error:
        raise wrong(str(folder), texts.NO_MODEL, texts.MODEL_DAMAGED_REMEDY) from error
    if not isinstance(found, dict) or not all(isinstance(found.get(name), int) for name in ("epochs", "seed")):
        raise wrong(str(folder), texts.NO_MODEL, texts.MODEL_DAMAGED_REMEDY)
    return found


def _unpacked(file: Path) -> Arrays:
    if not file.exists():
        raise wrong(str(file), texts.NOT_WHOLE, texts.NOT_WHOLE_REMEDY)
    try:
        return unpacked(file)
    except ValueError as error:
        raise wrong(str(file), texts.MODEL_DAMAGED, texts.MODEL_DAMAGED_REMEDY) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the libraries warn their own developers of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
