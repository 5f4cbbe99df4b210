"""Checks of a health home: the census node's address, declared places against the data and the policy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from broker_common.doctor import texts
from broker_common.doctor.agency import agency_findings
from broker_common.doctor.data import Room, declared_findings, dictionary_findings, policy_finding, source_findings
from broker_common.doctor.findings import Finding, ok, problem, tried, warning
from broker_common.doctor.peers import peer_findings
from broker_common.errors import BrokerError
from broker_common.language import phrase
from broker_common.parties.registration import registered
from broker_common.query.dictionary import Dictionary
from broker_common.storage.clock import system_clock
from broker_common.storage.journal import Journal
from broker_common.storage.source.plan import LINKED_ID
from broker_common.tlog.health_state import HealthState
from health_node.assembly import HealthHome
from health_node.people.store import read_figures
from health_node.roster.book import RosterBook


def look(path: Path) -> Iterator[Finding]:
    """Everything but the files themselves."""
    opened = HealthHome(path)
    yield ok("config", texts.CONFIG)
    yield from tried("log", lambda: _of_log(opened))
    yield from tried("source", lambda: source_findings(opened, lambda _: (LINKED_ID,)))
    yield from tried("policy", lambda: [_policy(opened)])


def _of_log(opened: HealthHome) -> Iterator[Finding]:
    with opened.journal() as journal:
        yield from agency_findings(opened, journal, system_clock())
        yield from tried("peers", lambda: _census(opened, journal))
        yield from tried("roster", lambda: [_roster(journal)])
        yield from tried("declared", lambda: _declared(opened, journal))
        yield from tried("dictionary", lambda: dictionary_findings(opened, journal))


def _census(opened: HealthHome, journal: Journal[HealthState]) -> Iterator[Finding]:
    census, own = opened.config.census, opened.own_card()
    with journal.reading() as state:
        known = registered(state.parties, "census", census.organisation).card
    yield from peer_findings(census.address, known, own, lambda: opened.keyring.tls(own, system_clock()), system_clock)


def _roster(journal: Journal[HealthState]) -> Finding:
    with journal.reading() as state:
        refusal = RosterBook(journal.db).refusal(state.load)
    if not refusal:
        return ok("roster", texts.ROSTER_TAKEN)
    remedy = texts.ROSTER_MISMATCH_REMEDY if refusal == "LINKAGE_MISMATCH" else texts.ROSTER_REFUSED_REMEDY
    return problem("roster", phrase(texts.ROSTER_REFUSED, code=refusal), remedy)


def _declared(opened: HealthHome, journal: Journal[HealthState]) -> Iterator[Finding]:
    with journal.reading() as state:
        load = state.load
        dictionary = opened.dictionaries.of_load(state, load) if load else None
    rooms = [] if dictionary is None else _rooms(opened, dictionary, load)
    yield from declared_findings("health", rooms)


def _rooms(opened: HealthHome, dictionary: Dictionary, load: str) -> list[Room]:
    figures, declared = read_figures(opened.loads.file(load), dictionary), opened.config.declared(dictionary)
    return [
        Room("places", figures.people, declared.places, figures.places),
        *(
            Room(f"rows.{name}", table.rows, declared.tables[name], table.declared)
            for name, table in figures.tables.items()
        ),
    ]


def _policy(opened: HealthHome) -> Finding:
    declared = opened.config.declared(opened.newest_dictionary())
    try:
        policy = asyncio.run(opened.policy_in_force())
    except BrokerError as error:
        return warning("policy", phrase(texts.POLICY_UNKNOWN, code=error.code), texts.POLICY_UNKNOWN_REMEDY)
    return policy_finding(policy, places=max(declared.places, declared.people), events=declared.events)
