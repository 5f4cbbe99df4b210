"""Calls of the operating system that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class FailingCalls:
    """Counts the calls that make files below some folders durable; one of them fails, before or after it was made."""

    NAMES = ("open", "fsync", "mkdir", "replace", "unlink")

    def __init__(self, patch: pytest.MonkeyPatch, failing: int, *under: Path, happens: bool) -> None:
        self.made: list[str] = []
        # The call was made; and it failed by our doing, not by itself, as the making of a folder that is there does.
        self.reached = self.failed = False
        self._under = under
        self._failing = failing
        self._happens = happens
        for name in self.NAMES:
            patch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            path = path_of(arguments[0])
            if not any(path.is_relative_to(folder) for folder in self._under):
                return call(*arguments, **options)
            self.made.append(name)
            if len(self.made) - 1 != self._failing:
                return call(*arguments, **options)
            self.reached = True
            if self._happens:
                result = call(*arguments, **options)
                if name == "open":
                    os.close(result)
            self.failed = True
            raise OSError(errno.EIO, "Input/output error")

        return made


def path_of(target: int | str | bytes | os.PathLike[str]) -> Path:
    """The object of a call of the operating system: a path, or an open file."""
    return Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else Path(os.fsdecode(target))
