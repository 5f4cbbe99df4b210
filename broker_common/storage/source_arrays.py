"""Arrays that grow while a source is read, piece by piece, and need no second copy of themselves to become whole."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["GrowingArray"]

ScalarT = TypeVar("ScalarT", bound=np.generic)


class GrowingArray(Generic[ScalarT]):
    """One dimension, one type."""

    def __init__(self, kind: np.dtype[ScalarT]) -> None:
        self._kind = kind
        # Python moves the pages of a large one that grows instead of their content.
        self._content = bytearray()

    def add(self, piece: npt.NDArray[np.generic] | bytes) -> None:
        """Append the values of an array, converted, or values as they lie in memory."""
        self._content += piece if isinstance(piece, bytes) else piece.astype(self._kind, copy=False).tobytes()

    def take(self) -> npt.NDArray[ScalarT]:
        """Everything added; nothing is left here."""
        content, self._content = self._content, bytearray()
        return np.frombuffer(content, self._kind)
