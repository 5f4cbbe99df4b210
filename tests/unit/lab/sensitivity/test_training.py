"""CTGAN: the same seed gives the same model, a killed training goes on as if nobody had killed it, nothing of it is executed."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Callable
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from unit.lab.sensitivity.made_up import made_up_people

from broker_common.errors import InvalidRequestError
from policy_lab.sensitivity.licence import LICENSED
from policy_lab.sensitivity.table import Table, read_table

pytestmark = [
    pytest.mark.skipif(
        find_spec("ctgan") is None,
        reason="CTGAN is not installed: 'make .venv/.ctgan' installs it, under a licence of its own",
    ),
    # Warnings of the libraries to their own developers.
    pytest.mark.filterwarnings("ignore"),
]

ROOT = Path(__file__).parents[4]
EPOCHS = 14


class KilledError(Exception):
    """Stands for a power cut."""


def killing(at: int) -> Callable[[int, int], None]:
    """Progress that ends in this epoch."""

    def progress(done: int, epochs: int) -> None:
        del epochs
        if done == at:
            raise KilledError

    return progress


def quiet(*_: Any) -> None:
    """Progress, and remarks, that nobody reads."""


@pytest.fixture(scope="module")
def model() -> ModuleType:
    """The module that trains."""
    from policy_lab.sensitivity import model as found  # noqa: PLC0415 - only where CTGAN is installed

    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Made-up people; enough for several steps an epoch, so that checkpoints are counted right."""
    path = tmp_path_factory.mktemp("table") / "people.csv"
    path.write_text(made_up_people(rows=1100, seed=3))
    return read_table(path)


@pytest.fixture(scope="module")
def whole(model: ModuleType, table: Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that nobody interrupted."""
    folder = tmp_path_factory.mktemp("model") / "whole"
    model.trained(table, model.Training(EPOCHS, 5), folder, quiet, quiet)
    return folder


def weights(folder: Path) -> bytes:
    """All that a trained model is."""
    return (folder / "weights.npz").read_bytes()


def test_same_seed_gives_the_same_model(model: ModuleType, table: Table, whole: Path, tmp_path: Path) -> None:
    """Bit by bit; another seed gives another one."""
    model.trained(table, model.Training(EPOCHS, 5), tmp_path / "again", quiet, quiet)
    model.trained(table, model.Training(EPOCHS, 6), tmp_path / "other", quiet, quiet)
    assert weights(tmp_path / "again") == weights(whole)
    assert weights(tmp_path / "other") != weights(whole)


def test_killed_training_goes_on_as_if_nobody_had_killed_it(
    model: ModuleType, table: Table, whole: Path, tmp_path: Path
) -> None:
    """Killed twice, it begins at its checkpoints, says so, and ends with the very same weights; the checkpoint is gone then."""
    folder = tmp_path / "killed"
    said: list[str] = []
    seen: list[int] = []
    for at in (7, 12):
        with pytest.raises(KilledError):
            model.trained(table, model.Training(EPOCHS, 5), folder, killing(at), said.append)
    model.trained(table, model.Training(EPOCHS, 5), folder, lambda done, _: seen.append(done), said.append)
    assert said == ["Training goes on after epoch 5 of 14.", "Training goes on after epoch 10 of 14."]
    assert seen == [11, 12, 13, 14]
    assert weights(folder) == weights(whole)
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "weights.npz"]


def test_loaded_model_generates_what_the_trained_one_did(model: ModuleType, table: Table, whole: Path) -> None:
    """The same rows for the same seed, with gaps where the table has some."""
    loaded, again = model.load(table, whole), model.load(table, whole)
    rows = loaded.sample(700, 9)
    assert all(np.array_equal(rows[name], again.sample(700, 9)[name], equal_nan=True) for name in rows)
    assert not np.array_equal(rows["age"], loaded.sample(700, 10)["age"])
    assert list(rows) == list(table.numbers)
    assert rows["age"].shape == (700,)
    assert not np.isnan(rows["age"]).any()


def test_trained_model_is_not_trained_again(model: ModuleType, table: Table, whole: Path) -> None:
    """It says that it is loaded, and no epoch is counted."""
    said: list[str] = []
    model.trained(table, model.Training(EPOCHS, 5), whole, killing(0), said.append)
    assert said == [f"The model in {whole} is loaded; nothing is trained."]


def test_model_is_for_its_owner_alone(whole: Path) -> None:
    """Its generated rows show the table's largest values."""
    assert stat.S_IMODE(whole.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in whole.iterdir()} == {0o600}


def test_folder_of_another_training_is_refused(model: ModuleType, table: Table, whole: Path) -> None:
    """Nothing is overwritten."""
    before = weights(whole)
    with pytest.raises(InvalidRequestError, match="another table, training or version"):
        model.trained(table, model.Training(EPOCHS + 1, 5), whole, quiet, quiet)
    assert weights(whole) == before


def test_model_of_another_table_is_refused(model: ModuleType, whole: Path, tmp_path: Path) -> None:
    """Its knowledge of columns belongs to its own table."""
    (tmp_path / "people.csv").write_text(made_up_people(rows=1100, seed=4))
    with pytest.raises(InvalidRequestError, match="trained on another table"):
        model.load(read_table(tmp_path / "people.csv"), whole)


def test_unfinished_model_is_not_loaded(model: ModuleType, table: Table, tmp_path: Path) -> None:
    """The hint says how to finish it."""
    with pytest.raises(KilledError):
        model.trained(table, model.Training(EPOCHS, 5), tmp_path, killing(2), quiet)
    with pytest.raises(InvalidRequestError, match="not finished"):
        model.load(table, tmp_path)


@pytest.mark.parametrize("damage", ["cut", "empty", "pickle", "other shape"])
def test_damaged_model_is_refused_and_nothing_is_executed(
    damage: str, model: ModuleType, table: Table, whole: Path, tmp_path: Path
) -> None:
    """A file with an object in it, which would execute code, is refused as well."""
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    file = folder / "weights.npz"
    if damage == "cut":
        file.write_bytes(weights(whole)[:5000])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "pickle":
        np.savez(file, weight=np.array([print], dtype=object))
    else:
        np.savez(file, weight=np.zeros((2, 2)))
    with pytest.raises(InvalidRequestError, match="damaged"):
        model.load(table, folder)


def test_too_many_words_are_refused(model: ModuleType, tmp_path: Path) -> None:
    """A column of names would be as many inputs of the network."""
    (tmp_path / "people.csv").write_text("age,name\n" + "".join(f"{n},person {n}\n" for n in range(600)))
    with pytest.raises(InvalidRequestError, match="name has 600 different words"):
        model.trained(read_table(tmp_path / "people.csv"), model.Training(1, 1), tmp_path / "model", quiet, quiet)


@pytest.mark.parametrize("content", ["age\n3\n4\n", "age\n7\n7\n7\n", "age,town\n1,Ayr\n?,Ayr\n"])
def test_smallest_tables_train(model: ModuleType, tmp_path: Path, content: str) -> None:
    """Two rows, one value, one word, no words."""
    (tmp_path / "people.csv").write_text(content)
    trained = model.trained(read_table(tmp_path / "people.csv"), model.Training(1, 1), tmp_path / "model", quiet, quiet)
    assert trained.sample(5, 1)["age"].shape == (5,)


def test_exactly_these_parts_are_under_the_business_source_licence() -> None:
    """Every package of the lock that is installed is looked at: its metadata, and its licence texts."""
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements-ctgan.lock").read_text(), re.MULTILINE))
    assert {"ctgan", "rdt", "torch"} <= locked
    found = set()
    for each in distributions():
        name = each.metadata["Name"].lower().replace("_", "-")
        texts = [
            Path(str(each.locate_file(file))).read_text("utf-8", errors="replace")
            for file in each.files or ()
            if "LICEN" in file.name.upper() and ".dist-info" in str(file)
        ]
        if name in locked and any("business source license" in text[:200].lower() for text in texts):
            found.add(name)
    assert found == set(LICENSED)
