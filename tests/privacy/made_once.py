"""Things that take long to make, and are only looked at afterwards: each is made once in a run, by the worker that needs it first."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """The result of `make`, in a folder of its own. Workers that need it meanwhile wait for it; later ones read it."""
    run = _folder_of_run(factory)
    folder, kept = run / name, run / f"{name}.made"
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.exists():
            made: Made = pickle.loads(kept.read_bytes())  # noqa: S301 - written below
            return made
        # One that failed leaves nothing for the next test that asks for it.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        made = make(folder)
        kept.write_bytes(pickle.dumps(made))
    return made


def _folder_of_run(factory: pytest.TempPathFactory) -> Path:
    """Every worker of pytest-xdist has a folder in that of the run."""
    own = factory.getbasetemp()
    run = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "made-once"
    run.mkdir(exist_ok=True)
    return run
