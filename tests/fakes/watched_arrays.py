"""Arrays that note what is done with them: every NumPy call with the shapes and types it reads, fills and makes.

A note says nothing of the numbers in an array, so equal notes of two samples mean equal work and equal allocations. A
shape does not show the elements that `where=` leaves out: they are never written, and a note of them is refused.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

Notes: TypeAlias = Counter[tuple[Any, ...]]
"""How often each thing was done. Threads do the same things in any order."""
_notes: Notes = Counter()
_noting = threading.Lock()


class _Watched(np.ndarray[Any, Any]):
    """An array whose views and results are watched too."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        out = named.pop("out", None)
        result = getattr(ufunc, method)(*map(_plain, inputs), **_with_out(named, out))
        _note(ufunc.__name__, method, inputs, out, tuple(named), result)
        return _same(result, out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        del types
        result = func(*map(_plain, args), **{name: _plain(each) for name, each in kwargs.items()})
        _note(func.__name__, "", args, tuple(kwargs.values()), tuple(kwargs), result)
        return _same(result, (kwargs["out"],) if kwargs.get("out") is not None else None)

    def __getitem__(self, key: Any) -> Any:
        result = super().__getitem__(_plain(key))
        if isinstance(key, np.ndarray | list):
            _note("read at", "", (self, key), None, (), result)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        # A list of places is of this length; a mask writes as often as it is set.
        written = (
            int(np.count_nonzero(key))
            if getattr(key, "dtype", None) == np.bool_
            else np.size(_plain(self)[_plain(key)])
        )
        _note("write at", type(key).__name__, (self, key, written), None, (), value)
        super().__setitem__(_plain(key), _plain(value))

    def any(self, *args: Any, **kwargs: Any) -> Any:
        _note("any", "", (self,), None, (), None)
        return np.ndarray.any(self, *args, **kwargs)

    def nonzero(self) -> Any:
        result = np.ndarray.nonzero(np.asarray(self))
        _note("nonzero", "", (self,), None, (), result)
        return result


def watched(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory, watched."""
    return array.view(_Watched)


@contextmanager
def watching() -> Iterator[None]:
    """Memory that is made meanwhile is watched, and what is read from files and messages."""
    with ExitStack() as patches:
        for name in ("empty", "zeros", "fromfile", "frombuffer"):
            original: Callable[..., Any] = getattr(np, name)

            def made(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> Any:
                array = _original(*args, **kwargs)
                _note(_name, "", (), None, (), array)
                return watched(array)

            patches.enter_context(patch.object(np, name, made))
        yield


def notes_of(step: Callable[[], object]) -> Notes:
    """Notes of a step."""
    _notes.clear()
    step()
    found = Counter(_notes)
    assert found, "nothing was watched"
    assert not [note for note in found if "where" in note[4]], "a pass leaves people out"
    return found


def _note(name: str, method: str, inputs: Any, out: Any, named: tuple[str, ...], result: Any) -> None:
    note = name, method, _shapes(inputs), _shapes(out), named, _shapes(result)
    with _noting:
        _notes[note] += 1


def _shapes(things: Any) -> Any:
    if isinstance(things, tuple | list):
        return tuple(map(_shapes, things))
    if isinstance(things, np.ndarray):
        return things.shape, str(things.dtype)
    # Numbers that a pass is told are the same in every world; numbers that it finds are not to steer it.
    return things if isinstance(things, int) and not isinstance(things, bool) else type(things).__name__


def _plain(thing: Any) -> Any:
    if isinstance(thing, tuple | list):
        return type(thing)(map(_plain, thing))
    return thing.view(np.ndarray) if isinstance(thing, _Watched) else thing


def _with_out(named: dict[str, Any], out: Any) -> dict[str, Any]:
    plain = {name: _plain(each) for name, each in named.items()}
    return plain if out is None else {**plain, "out": tuple(map(_plain, out))}


def _same(result: Any, out: Any) -> Any:
    if out is not None:
        return out[0]
    return watched(result) if isinstance(result, np.ndarray) else result
