"""Checks of the data: the load compared with the declaration, the policy and the source of the next load."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from broker_common.agency.home import AgencyHome
from broker_common.doctor import texts
from broker_common.doctor.findings import Finding, ok, problem, warning
from broker_common.language import phrase
from broker_common.privacy.delays import too_short
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import dictionary_document
from broker_common.storage.dictionary.file import FILE_NAME, read_dictionary
from broker_common.storage.journal import Journal
from broker_common.storage.source.plan import OwnPlan, plan_for
from broker_common.storage.source.rows import RejectedRows
from broker_common.storage.source.toml import PEOPLE_TABLE, OwnFiles, OwnTable

# When so much of what is declared is taken, the next load may not fit.
_LITTLE_ROOM = 0.95
_LOAD = {"census": "tripartite census load", "health": "tripartite health load"}
# Where a home says, or has, what its next load reads.
_SOURCES = ("source.toml", "people.csv")


@dataclass(frozen=True, slots=True)
class Room:
    """One setting of config.toml that says how much a load may hold, and what the load in force holds."""

    setting: str
    rows: int
    declared: int
    # When the load was made.
    declared_then: int


def declared_findings(role: str, rooms: Sequence[Room]) -> Iterator[Finding]:
    """Whether the load in force leaves room below what is declared; without any room nothing is loaded."""
    if not rooms:
        remedy = phrase(texts.NOTHING_LOADED_REMEDY, command=_LOAD[role])
        yield warning("declared", texts.NOTHING_LOADED, remedy)
    for room in rooms:
        shown = {"setting": room.setting, "rows": room.rows, "declared": room.declared, "then": room.declared_then}
        if room.declared != room.declared_then:
            yield warning("declared", phrase(texts.DECLARED_CHANGED, **shown), texts.DECLARED_CHANGED_REMEDY)
        elif room.rows > _LITTLE_ROOM * room.declared:
            yield warning("declared", phrase(texts.FULL, **shown), texts.FULL_REMEDY)
        else:
            yield ok("declared", phrase(texts.FITS, **shown))


def policy_finding(policy: Policy, *, places: int | None, people: int | None = None, events: int = 0) -> Finding:
    """Whether the policy's times allow for what is declared."""
    if not policy.release_tick_ms:
        return warning("policy", texts.NO_TICK, texts.POLICY_REMEDY)
    short = too_short(policy, places, people=people, events=events)
    if not short:
        return ok("policy", texts.POLICY_FITS)
    times = ", ".join(f"{name} >= {least_ms}" for name, least_ms in short.items())
    return problem("policy", phrase(texts.POLICY_TOO_SHORT, times=times), texts.POLICY_REMEDY)


def dictionary_findings(agency: AgencyHome[Any], journal: Journal[Any]) -> Iterator[Finding]:
    """Whether the dictionary in the home, the one that was adopted last, and that of the load in force are the same."""
    with journal.reading() as state:
        newest, in_force = state.newest_dictionary, state.dictionaries.get(state.load, "")
    home, role = agency.home.path, agency.home.role
    adopt = phrase(texts.ADOPT_REMEDY, command=f"tripartite dictionary adopt --home {home}")
    if newest is None:
        yield warning("dictionary", texts.DICTIONARY_NONE, adopt)
        return
    file = home / FILE_NAME
    is_other = file.is_file() and dictionary_document(read_dictionary(file)) != agency.dictionaries.document(
        newest.document
    )
    if is_other:
        yield warning("dictionary", texts.DICTIONARY_NOT_ADOPTED, adopt)
    is_next = in_force not in {"", newest.dictionary}
    if is_next:
        shown = phrase(texts.DICTIONARY_NEXT, version=newest.version)
        yield warning("dictionary", shown, phrase(texts.DICTIONARY_NEXT_REMEDY, command=_LOAD[role]))
    if not is_other and not is_next:
        yield ok("dictionary", phrase(texts.DICTIONARY_GOOD, version=newest.version))


def source_findings(agency: AgencyHome[Any], ids: Callable[[Dictionary], Collection[str]]) -> Iterator[Finding]:
    """Whether what the next load reads can be opened; its first rows are read, and nothing is said of them."""
    home = agency.home.path
    if not any((home / name).exists() for name in _SOURCES):
        yield warning("source", texts.NO_SOURCE, texts.NO_SOURCE_REMEDY)
        return
    dictionary = agency.newest_dictionary()
    plan = plan_for(home, None, ids(dictionary), dictionary)
    sources = {PEOPLE_TABLE: plan.people(dictionary.columns)} | {
        table.name: plan.events(table) for table in dictionary.events
    }
    unasked = (
        {name for name, table in plan.tables.items() if not _is_light(table)} if isinstance(plan, OwnPlan) else set()
    )
    for name in sources.keys() - unasked:
        next(iter(sources[name].chunks(RejectedRows())), None)
    if unasked:
        command = f"{_LOAD[agency.home.role]} --check --home {home}"
        yield ok("source", phrase(texts.SOURCE_UNASKED, tables=", ".join(sorted(unasked)), command=command))
    else:
        yield ok("source", texts.SOURCE)


def _is_light(table: OwnTable) -> bool:
    """Whether its first rows are there at once: a database sorts all of them before, and a table beside it is read whole."""
    return isinstance(table.rows, OwnFiles) and all(column.rows is None for column in table.columns.values())
