"""Openings on site: one sealed file for each answer, for an auditor who comes with the oversight key.

Written before the noise secret is wiped, removed when the time that they are kept has ended. They never leave the home: an
auditor reads them here, next to the log that says what they have to agree with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from broker_common.crypto.sealing import SealingKey
from broker_common.errors import InternalError
from broker_common.privacy.opening import OPENING_SUFFIX, Opening, seal_opening
from broker_common.storage.durable import make_folder, replace_file

# Between looks into the folder, which holds an opening for every answer of the time that they are kept.
_LOOK_MS = 3_600_000


@dataclass(slots=True)
class Oversight:
    """The folder of one census node's openings, and the key that they are sealed to."""

    path: Path
    key: SealingKey
    retention_ms: int
    # When the folder is looked through again.
    _next_look_ms: int = field(default=0, init=False)

    def keep(self, opening: Opening) -> None:
        """Durably seal and keep an opening; one that is made again takes the place of the first.

        Raises:
            InternalError: STORE_FAILED.
        """
        try:
            make_folder(self.path)
            replace_file(self.path / f"{opening.ticket}{OPENING_SUFFIX}", seal_opening(opening, self.key), mode=0o600)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def forget_old(self, now_ms: int) -> None:
        """Remove openings that have been kept long enough, an hour late at most; costs nothing in between.

        Raises:
            InternalError: STORE_FAILED.
        """
        if now_ms < self._next_look_ms:
            return
        try:
            for path in self.path.glob(f"*{OPENING_SUFFIX}"):
                if path.stat().st_mtime_ns // 1_000_000 + self.retention_ms <= now_ms:
                    path.unlink()
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        self._next_look_ms = now_ms + min(_LOOK_MS, self.retention_ms)
