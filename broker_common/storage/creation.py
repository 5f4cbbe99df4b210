"""New homes: a folder that is new or empty becomes one as a whole, or is left as it was.

config.toml says of each setting that was chosen what it is, in the words of the code; what is left out has its default.
"""

from __future__ import annotations

import ast
import functools
import inspect
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from broker_common.crypto.cards import IDENTIFIER, MAX_ORIGIN_CHARACTERS, ORIGIN
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.storage.durable import replace_file
from broker_common.storage.home import CONFIG, KEYS

_HEAD = "# config.toml of a {role} home. What is left out has its default; every setting stands in docs/settings.md.\n"
# Settings that somebody has to have chosen.
_DECLARED = frozenset({"people", "places"})


@contextmanager
def new_home(path: Path, config: msgspec.Struct) -> Iterator[None]:
    """Make a home with this configuration; if the block fails, nothing of it is left.

    Raises:
        InvalidRequestError: HOME_INVALID, the folder holds something.
    """
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    verify_empty(path)
    try:
        for folder in (path, path / KEYS):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
        replace_file(path / CONFIG, config_text(config).encode())
        yield
    except BaseException:
        _empty(path)
        if is_new:
            path.rmdir()
        raise


def verify_empty(path: Path) -> None:
    """Return only if a folder holds nothing.

    Raises:
        InvalidRequestError: HOME_INVALID.
    """
    if any(path.iterdir()):
        raise InvalidRequestError(
            "HOME_INVALID",
            home=str(path),
            role="new",
            problem="the folder is not empty",
            remedy=phrase("Nothing was changed. Name a folder that is new or empty."),
        )


def _empty(path: Path) -> None:
    for left in path.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def verify_identifier(option: str, value: str) -> None:
    """Return only if this can be the name of an organisation, a researcher or a study.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    if not IDENTIFIER.fullmatch(value):
        raise InvalidRequestError(
            "INVALID_VALUE",
            name=option,
            problem=f"is {value[:64]!r}",
            remedy=phrase("Use small letters, digits and hyphens, at most 63."),
        )


def verify_origin(option: str, value: str) -> None:
    """Return only if this can be the name of a log.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    if not ORIGIN.fullmatch(value) or len(value) > MAX_ORIGIN_CHARACTERS:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name=option,
            problem=f"is {value[:64]!r}",
            remedy=phrase("Use a name like health.example/tripartite: no blanks and no '+', at most 200 characters."),
        )


# --- config.toml ---------------------------------------------------------------------------------------------------


def config_text(config: msgspec.Struct) -> str:
    """config.toml with what differs from the defaults, each setting below the comment that it has in the code."""
    return "\n".join([_HEAD.format(role=getattr(config, "role", "")), *_settings(config)]) + "\n"


def _settings(config: msgspec.Struct, section: str = "") -> list[str]:
    comments = comments_of(type(config))
    chosen: list[str] = []
    usual: list[str] = []
    sections: list[str] = []
    for field in msgspec.structs.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, msgspec.Struct):
            name = f"{section}{field.name}"
            inner = _settings(value, f"{name}.")
            sections += ["", f"[{name}]", *inner] if inner else []
        elif (is_chosen := field.required or field.name in _DECLARED) or value != _default(field):
            written = [f"# {line}" for line in comments[field.name]]
            written.append(tomli_w.dumps({field.name: value}).rstrip("\n"))
            if isinstance(value, dict):
                sections += ["", *written]
            else:
                (chosen if is_chosen else usual).extend(written)
    return chosen + usual + sections


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


@functools.cache
def comments_of(kind: type) -> dict[str, list[str]]:
    """The comment above each field of a class and of those that it rests on, line by line."""
    base = kind.__mro__[1]
    comments = {} if base in {object, msgspec.Struct} else comments_of(base)
    source = textwrap.dedent(inspect.getsource(kind))
    lines, definition = source.splitlines(), ast.parse(source).body[0]
    if not isinstance(definition, ast.ClassDef):
        raise TypeError(f"{kind} is no class")
    return comments | {
        field.target.id: comment_above(lines, field.lineno)
        for field in definition.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def comment_above(lines: Sequence[str], line: int) -> list[str]:
    """The comment that stands above a line, which is counted from 1."""
    comment: list[str] = []
    at = line - 2
    while lines[at].strip().startswith("#"):
        comment.insert(0, lines[at].strip().lstrip("# "))
        at -= 1
    return comment
