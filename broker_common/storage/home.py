"""A role's home: `config.toml`, `keys/`, `trust/` and data. The one place that knows how the files of a home are read.

Configuration never holds a secret, only a reference to one: `file:PATH` (relative to the home) or `env:NAME`. Unknown
settings are errors, so that a misspelt one cannot be silently ignored.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from broker_common.crypto.certificates import TlsCredentials
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.storage.durable import exclusive

__all__ = ["Home", "TlsConfig"]

ValueT = TypeVar("ValueT")
_MAX_FILE_BYTES = 1024 * 1024


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Own certificate and key. Peers trust exactly this certificate, so giving it away is how to be recognised."""

    # Reference to the PEM certificate.
    certificate: str = "file:keys/tls.crt"
    # Reference to the PEM private key.
    private_key: str = "file:keys/tls.key"


@dataclass(frozen=True, slots=True)
class Home:
    """One role's folder."""

    path: Path
    role: str

    def load_config(self, config_type: type[ValueT]) -> ValueT:
        """The typed content of config.toml.

        Raises:
            InvalidRequestError: HOME_INVALID or CONFIG_INVALID, naming the setting that is wrong.
        """
        file = self.path / "config.toml"
        if not file.is_file():
            raise InvalidRequestError(
                "HOME_INVALID", home=str(self.path), role=self.role, problem="there is no config.toml"
            )
        try:
            return msgspec.toml.decode(file.read_bytes(), type=config_type)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            # The library's own errors, text that is no UTF-8, numbers of thousands of digits, brackets in brackets.
            raise InvalidRequestError("CONFIG_INVALID", file=str(file), problem=str(error)) from error

    def read(self, reference: str) -> bytes:
        """What a reference leads to.

        Raises:
            InvalidRequestError: SECRET_MISSING.
        """
        kind, _, target = reference.partition(":")
        if kind == "env" and target:
            value = os.environ.get(target)
            if value is None:
                raise self._missing(reference, "the environment variable is not set")
            return value.encode("utf-8", "surrogateescape")
        if kind == "file" and target:
            try:
                with (self.path / target).open("rb") as file:
                    return file.read(_MAX_FILE_BYTES)
            except OSError as error:
                raise self._missing(reference, error.strerror or "it cannot be read") from error
            except ValueError as error:
                raise self._missing(reference, "it is not a path") from error
        raise self._missing(reference, "it is not a reference")

    def read_key(self, reference: str, parse: Callable[[str], ValueT]) -> ValueT:
        """The key that a reference leads to, read by `parse`, whose ValueError never quotes the key."""
        try:
            return parse(self.read(reference).decode("ascii"))
        except ValueError as error:
            raise self._missing(reference, "what is there is not a key of the kind expected") from error

    def read_tls(self, config: TlsConfig) -> TlsCredentials:
        return TlsCredentials(self.read(config.certificate), self.read(config.private_key))

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Hold the home for one serving process; ends with the process, however it ends.

        Raises:
            RefusedError: ALREADY_RUNNING.
        """
        with exclusive(self.path / "serve.lock") as held:
            if not held:
                raise RefusedError("ALREADY_RUNNING", home=str(self.path))
            yield

    @property
    def is_served(self) -> bool:
        """True while a process holds the home."""
        try:
            with self.serving():
                return False
        except RefusedError:
            return True

    @staticmethod
    def _missing(reference: str, problem: str) -> InvalidRequestError:
        return InvalidRequestError("SECRET_MISSING", reference=reference, problem=problem)
