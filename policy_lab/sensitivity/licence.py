"""The licence that CTGAN and its part RDT come under: shown before use, and accepted by a person, for these very texts.

Nothing of theirs is imported here: names, versions and licence texts stand beside an installed distribution.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import click

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase, said
from policy_lab.sensitivity import texts
from policy_lab.standing import make_private_folder, write_private

LICENSED: Final = ("ctgan", "rdt")
"""The distributions of `requirements-ctgan.lock` that are under the Business Source License."""
REMEMBERED: Final = "licence-accepted.json"
# Its parameters: who licenses what, what it may be used for, and when it becomes an open one.
_LINES = 27
_SOURCE = "Source Code"


@dataclass(frozen=True, slots=True)
class Licence:
    """One distribution's licence."""

    name: str
    version: str
    text: str
    file: str
    address: str

    @property
    def digest(self) -> str:
        """Hash that identifies this text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def licences() -> list[Licence]:
    """The licences of what is installed here.

    Raises:
        InvalidRequestError: CTGAN_NOT_INSTALLED.
    """
    return [_licence(name) for name in LICENSED]


def accept(folder: Path, *, is_accepted: bool, show: Callable[[str], None]) -> None:
    """Return if these licences are accepted: by option, by an earlier yes in this folder, or by a yes now.

    Raises:
        InvalidRequestError: CTGAN_NOT_INSTALLED, or LICENCE_NOT_ACCEPTED.
    """
    found = licences()
    if _is_remembered(folder, found):
        return
    for licence in found:
        show(_shown(licence))
    if not is_accepted and not (_is_terminal() and click.confirm(said(texts.ASK_LICENCE), err=True)):
        raise InvalidRequestError(
            "LICENCE_NOT_ACCEPTED", package=", ".join(f"{each.name} {each.version}" for each in found)
        )
    _remember(folder, found)


def _licence(name: str) -> Licence:
    try:
        found = distribution(name)
    except PackageNotFoundError as error:
        raise InvalidRequestError("CTGAN_NOT_INSTALLED", package=name) from error
    file = _file(found)
    return Licence(found.name, found.version, file.read_text("utf-8"), str(file), _address(found))


def _file(found: Distribution) -> Path:
    for each in found.files or ():
        if each.name == "LICENSE" and ".dist-info" in str(each):
            return Path(str(found.locate_file(each)))
    raise InvalidRequestError("CTGAN_NOT_INSTALLED", package=phrase(texts.LICENCE_OF, package=found.name))


def _address(found: Distribution) -> str:
    pairs = (each.partition(", ") for each in found.metadata.get_all("Project-URL") or ())
    return next((address for label, _, address in pairs if label == _SOURCE), "")


def _shown(licence: Licence) -> str:
    first = "\n".join(f"  | {line}" for line in licence.text.strip().splitlines()[:_LINES])
    return said(
        texts.LICENCE,
        name=licence.name,
        version=licence.version,
        lines=first,
        file=licence.file,
        address=licence.address,
    )


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _accepted(found: Sequence[Licence]) -> dict[str, str]:
    return {f"{each.name} {each.version}": each.digest for each in found}


def _is_remembered(folder: Path, found: Sequence[Licence]) -> bool:
    try:
        return bool(json.loads((folder / REMEMBERED).read_bytes()) == _accepted(found))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


def _remember(folder: Path, found: Sequence[Licence]) -> None:
    write_private(make_private_folder(folder) / REMEMBERED, json.dumps(_accepted(found), indent=1).encode())
