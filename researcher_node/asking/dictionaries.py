"""The agencies' dictionaries as they were fetched last: `dictionaries/ROLE.json` in the home, so that none is fetched twice.

What stands there counts only if the agency says, signed, that its document has this hash.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from broker_common.crypto.certificates import Role
from broker_common.errors import InternalError
from broker_common.storage.durable import replace_file


class KeptDictionaries:
    """The folder of one home. Several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def document(self, role: Role) -> bytes:
        """What was fetched last; empty if nothing was, or it cannot be read."""
        try:
            return self._file(role).read_bytes()
        except OSError:
            return b""

    def put(self, role: Role, document: bytes) -> None:
        """Keep what was fetched.

        Raises:
            InternalError: STORE_FAILED.
        """
        try:
            self._folder.mkdir(exist_ok=True)
            replace_file(self._file(role), document)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def _file(self, role: Role) -> Path:
        return self._folder / f"{role}.json"


def name_of(document: bytes) -> bytes:
    """By what a document is asked for; nothing for none."""
    return hashlib.sha256(document).digest() if document else b""
