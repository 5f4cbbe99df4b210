"""Checks of an auditor's home: whom it trusts, and the oversight key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker_common.audit.home import AuditorHome
from broker_common.crypto.certificates import Role
from broker_common.doctor import texts
from broker_common.doctor.findings import Finding, ok, tried, warning
from broker_common.errors import InvalidRequestError
from broker_common.language import joined, phrase

_AGENCIES: Final[tuple[Role, ...]] = ("census", "health")


def look(path: Path) -> Iterator[Finding]:
    """Whether an audit could begin."""
    home = AuditorHome(path)
    yield ok("config", texts.CONFIG)
    parties = [phrase(texts.PARTY, role=role, name=home.agency(role)) for role in _AGENCIES]
    yield ok("peers", phrase(texts.TRUSTED, parties=joined(", ", parties)))
    yield from tried("keys", lambda: _oversight(home))


def _oversight(home: AuditorHome) -> Iterator[Finding]:
    try:
        home.oversight_key()
    except InvalidRequestError as error:
        if error.code != "INVALID_VALUE":
            raise
        yield warning("keys", texts.NO_OVERSIGHT_HERE, texts.NO_OVERSIGHT_HERE_REMEDY)
    else:
        yield ok("keys", texts.OVERSIGHT_HERE)
