"""The agencies' publications, as they are kept in a researcher's home.

`policies/` has the census agency's policies that answers were given under, one document a file, named by its hash: a share of a
budget can be told of every stored answer, offline and whatever is in force today. A document that is not the one its name says is
refused.

`dictionaries/ROLE.json` is an agency's dictionary as it was fetched last, so that none is fetched twice. It counts only if the agency
says, signed, that its document has this hash.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from broker_common.crypto.certificates import Role
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.privacy.policy import MAX_POLICY_BYTES, Policy, parse_policy
from broker_common.storage.durable import replace_file


class Policies:
    """The folder of one home. Several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Policy] = {}

    def put(self, policy: Policy) -> None:
        """Keep a policy that its agency has signed."""
        name = policy.hash.hex()
        if self.get(name) is None:
            self._folder.mkdir(exist_ok=True)
            replace_file(self._file(name), policy.document)

    def get(self, name: str) -> Policy | None:
        """The policy with this hash, as hexadecimal digits; None if it was never met here.

        Raises:
            InvalidRequestError: FILE_UNUSABLE.
        """
        if name not in self._read:
            policy = self._parse(name)
            if policy is None:
                return None
            self._read[name] = policy
        return self._read[name]

    def _parse(self, name: str) -> Policy | None:
        path = self._file(name)
        try:
            with path.open("rb") as file:
                policy = parse_policy(file.read(MAX_POLICY_BYTES + 1))
        except FileNotFoundError:
            return None
        except InvalidRequestError as error:
            raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem=error.text) from error
        if policy.hash.hex() != name:
            raise InvalidRequestError(
                "FILE_UNUSABLE", file=str(path), problem="it is another policy than its name says"
            )
        return policy

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


class KeptDictionaries:
    """The folder of one home. Several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def document(self, role: Role) -> bytes:
        """The document fetched last; empty if there is none, or it cannot be read."""
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
    """The name by which a document is requested; nothing for none."""
    return hashlib.sha256(document).digest() if document else b""
