"""A role's home: `config.toml`, `keys/`, `trust/` and data. The one place that knows how the files of a home are read.

Configuration never holds a secret, only a reference to one: `file:PATH` (relative to the home) or `env:NAME`. Unknown
settings are errors, so that a misspelt one cannot be silently ignored.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.storage.durable import exclusive, is_held, make_folder, replace_file

ValueT = TypeVar("ValueT")
CONFIG = "config.toml"
# The folder of private keys.
KEYS = "keys"
# Names the home that commands work in when none is given.
_VARIABLE = "TRIPARTITE_HOME"
_LOAD_REFUSED = "load-refused"
# The largest key file or other secret; more is not read.
_MAX_FILE_BYTES = 1024 * 1024
_LOCK_ATTEMPTS = 5
_LOCK_PAUSE_SECONDS = 0.1
ROLES = ("researcher", "health", "census", "auditor")
# The library's own errors, text that is no UTF-8, numbers of thousands of digits, brackets in brackets.
_DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)


def no_config(path: Path, role: str) -> InvalidRequestError:
    """The error for a folder without a configuration."""
    remedy = (
        "Give the folder that holds config.toml. 'tripartite init DIR' makes DIR/researcher, DIR/health, DIR/census and "
        "DIR/auditor."
    )
    within = [name for name in ROLES if (path / name / CONFIG).is_file()]
    if within:
        remedy = f"Give one of the homes in it with --home: {', '.join(str(path / name) for name in within)}."
    return InvalidRequestError(
        "HOME_INVALID", home=str(path), role=role, problem="there is no config.toml", remedy=remedy
    )


def _role_of(data: bytes) -> str:
    """Which role a configuration that is not valid here says that it is for; empty if it says none that there is."""
    try:
        config = msgspec.toml.decode(data)
    except _DECODE_ERRORS:
        return ""
    role = config.get("role") if isinstance(config, dict) else ""
    return role if role in ROLES else ""


def usual_home(role: str) -> Path | None:
    """The home that a command works in when it is given none; any home where `role` is empty. None if there is none.

    TRIPARTITE_HOME comes before the current folder. Each may be the home itself, or the folder that `init` made it in.
    """
    named = os.environ.get(_VARIABLE)
    folders = [Path(named)] if named else []
    folders.append(Path.cwd())
    wanted = {role} if role else set(ROLES)
    homes = [home for folder in folders for home in ((folder, folder / role) if role else (folder,))]
    return next((home for home in homes if _is_home(home, wanted)), None)


def _is_home(path: Path, roles: set[str]) -> bool:
    file = path / CONFIG
    return file.is_file() and _role_of(file.read_bytes()) in roles


def stated_role(path: Path) -> str:
    """The role that the home at `path` says it is for.

    Raises:
        InvalidRequestError: HOME_INVALID or CONFIG_INVALID.
    """
    file = path / CONFIG
    try:
        data = file.read_bytes()
        msgspec.toml.decode(data)
    except OSError as error:
        raise no_config(path, "node's or researcher's") from error
    except _DECODE_ERRORS as error:
        raise InvalidRequestError("CONFIG_INVALID", file=str(file), problem=str(error)) from error
    role = _role_of(data)
    if not role:
        raise InvalidRequestError("CONFIG_INVALID", file=str(file), problem="its role is none that is known here")
    return role


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
        file = self.path / CONFIG
        if not file.is_file():
            raise no_config(self.path, self.role)
        data = file.read_bytes()
        try:
            return msgspec.toml.decode(data, type=config_type)
        except _DECODE_ERRORS as error:
            role = _role_of(data)
            if role not in {"", self.role}:
                raise InvalidRequestError(
                    "HOME_INVALID",
                    home=str(self.path),
                    role=self.role,
                    problem=f'its config.toml says role = "{role}"',
                    remedy=f"Give the {self.role} home with --home, or call 'tripartite {role} --help'.",
                ) from error
            raise InvalidRequestError("CONFIG_INVALID", file=str(file), problem=str(error)) from error

    def read(self, reference: str) -> bytes:
        """Read the file or variable of a reference.

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

    def stamp(self, reference: str) -> Hashable:
        """A value that changes whenever `read` may give something else: for a file, its identity and time of change.

        Raises:
            InvalidRequestError: SECRET_MISSING.
        """
        kind, _, target = reference.partition(":")
        if kind != "file" or not target:
            return self.read(reference)
        try:
            found = os.stat(f"{self.path}/{target}")  # noqa: PTH116 - at every use of a key; a path costs more than the call
        except OSError as error:
            raise self._missing(reference, error.strerror or "it cannot be read") from error
        except ValueError as error:
            raise self._missing(reference, "it is not a path") from error
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def read_key(self, reference: str, parse: Callable[[str], ValueT]) -> ValueT:
        """The key, or what several make together, that a reference leads to: `parse` never quotes it in its ValueError."""
        return self._parse_key(reference, self.read(reference), parse)

    def parse_keys(self, reference: str, data: bytes, parse: Callable[[str], ValueT]) -> list[ValueT]:
        """The keys, a line each, in what a reference was found to lead to.

        Raises:
            InvalidRequestError: SECRET_MISSING.
        """
        return self._parse_key(reference, data, lambda text: [parse(line) for line in text.splitlines()])

    def _parse_key(self, reference: str, data: bytes, parse: Callable[[str], ValueT]) -> ValueT:
        try:
            return parse(data.decode("ascii"))
        except ValueError as error:
            raise self.no_key(reference) from error

    def no_key(self, reference: str) -> InvalidRequestError:
        """The error for a reference that leads to no key of the kind expected."""
        return self._missing(reference, "what is there is not a key of the kind expected")

    def not_that_key(self, reference: str) -> InvalidRequestError:
        """The error for a reference that leads to other keys than the one that is needed."""
        return self._missing(reference, "none of the keys there is the one that is needed")

    def key_file(self, reference: str) -> Path:
        """The file that a reference leads to; where a link stands, the file behind it.

        Raises:
            InvalidRequestError: INVALID_VALUE, it leads to no file.
        """
        kind, _, target = reference.partition(":")
        if kind != "file":
            raise InvalidRequestError(
                "INVALID_VALUE",
                name=f"the reference {reference}",
                problem="leads to no file that a key could be written to",
                remedy="Put all keys behind it yourself, one a line, oldest first.",
            )
        return (self.path / target).resolve()

    def replace_key(self, reference: str, text: str) -> None:
        """Durably make the key file that a reference leads to hold `text`, for its owner alone.

        Raises:
            InvalidRequestError: INVALID_VALUE, the reference leads to no file.
            InternalError: STORE_FAILED.
        """
        path = self.key_file(reference)
        try:
            make_folder(path.parent)
            # SECURITY: left by a process that was killed here; it holds keys.
            for unfinished in path.parent.glob(f".{path.name}.*.part"):
                unfinished.unlink()
            replace_file(path, text.encode("ascii"), mode=0o600)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Hold the home for one serving process; ends with the process, however it ends.

        Raises:
            RefusedError: ALREADY_RUNNING.
        """
        for attempt in range(_LOCK_ATTEMPTS):
            with exclusive(self.path / "serve.lock") as held:
                if held:
                    yield
                    return
            # A status command may have looked just now.
            if attempt + 1 < _LOCK_ATTEMPTS:
                time.sleep(_LOCK_PAUSE_SECONDS)
        raise RefusedError("ALREADY_RUNNING", home=str(self.path))

    @property
    def is_served(self) -> bool:
        """True while a process holds the home."""
        return is_held(self.path / "serve.lock")

    @property
    def free_share(self) -> float:
        """How much of the disk that the home is on is free."""
        disk = os.statvfs(self.path)
        return disk.f_bavail / max(disk.f_blocks, 1)

    @property
    def is_load_refused(self) -> bool:
        """True if the last load did not come into force."""
        return (self.path / _LOAD_REFUSED).exists()

    @contextlib.contextmanager
    def noting_refused_load(self) -> Iterator[None]:
        """Remember whether the load of the block came into force, for those who watch the node."""
        try:
            yield
        except Exception:
            (self.path / _LOAD_REFUSED).touch(mode=0o600)
            raise
        (self.path / _LOAD_REFUSED).unlink(missing_ok=True)

    @staticmethod
    def _missing(reference: str, problem: str) -> InvalidRequestError:
        return InvalidRequestError("SECRET_MISSING", reference=reference, problem=problem)
