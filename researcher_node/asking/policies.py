"""The census agency's policies that answers were given under: `policies/` in the home, one document a file, named by its hash.

A share of a budget can then be told of every stored answer, offline and whatever is in force today. A document that is not the one
its name says is refused.
"""

from __future__ import annotations

from pathlib import Path

from broker_common.errors import InvalidRequestError
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
