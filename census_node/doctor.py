"""Checks of a census home: the witness store, oversight, declared people against the data and the policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from broker_common.cli import instant
from broker_common.crypto.sealing import SealingKey
from broker_common.doctor import texts
from broker_common.doctor.agency import agency_findings
from broker_common.doctor.data import Room, declared_findings, dictionary_findings, policy_finding, source_findings
from broker_common.doctor.files import disk_findings
from broker_common.doctor.findings import Finding, ok, problem, tried, warning
from broker_common.language import phrase
from broker_common.storage.clock import system_clock
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNotes
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.parties import witness_of
from census_node.assembly import CensusHome
from census_node.registry import Registry
from census_node.registry.loading import id_columns


def look(path: Path) -> Iterator[Finding]:
    """Everything but the files themselves."""
    opened = CensusHome(path)
    yield ok("config", texts.CONFIG)
    yield from tried("log", lambda: _of_log(opened))
    yield from tried("source", lambda: source_findings(opened, id_columns))
    yield from tried("witness", lambda: _witness(opened))
    yield from tried("oversight", lambda: [_oversight(opened)])


def _of_log(opened: CensusHome) -> Iterator[Finding]:
    with opened.journal() as journal:
        yield from agency_findings(opened, journal, system_clock())
        yield from tried("peers", lambda: _health_agencies(journal))
        yield from tried("declared", lambda: _declared(opened, journal))
        yield from tried("policy", lambda: [_policy(opened, journal)])
        yield from tried("dictionary", lambda: dictionary_findings(opened, journal))


def _health_agencies(journal: Journal[CensusState]) -> Iterator[Finding]:
    """This node calls no health node: whether they call it, their cosignatures tell."""
    with journal.reading() as state:
        notes = {each.witness: each.note for each in CosignedNotes(journal.db).of(state.origin)}
        for name, peer in state.parties.peers("health").items():
            note = notes.get(peer.card.card.origin)
            if note is None:
                yield warning("peers", phrase(texts.UNHEARD, name=name), texts.UNHEARD_REMEDY)
                continue
            time_ms = 1000 * witness_of(peer.card, state.time_ms).verify(note).time_s
            yield ok("peers", phrase(texts.HEARD, name=name, time=instant(time_ms)))


def _declared(opened: CensusHome, journal: Journal[CensusState]) -> Iterator[Finding]:
    with journal.reading() as state:
        load = state.load
    declared = opened.config.people
    rooms = [Room("people", Registry.read(opened.loads.file(load), load).size, declared, declared)] if load else []
    yield from declared_findings("census", rooms)


def _policy(opened: CensusHome, journal: Journal[CensusState]) -> Finding:
    with journal.reading() as state:
        policy = state.policy
    if policy is None:
        return problem("policy", texts.NO_POLICY, texts.POLICY_REMEDY)
    places = max((roster.places for roster, _ in opened.rosters()), default=None)
    return policy_finding(policy, places=places, people=opened.config.people)


def _witness(opened: CensusHome) -> Iterator[Finding]:
    if not opened.config.witness_store:
        yield warning("witness", texts.NO_WITNESS, texts.WITNESS_REMEDY)
        return
    folder = (opened.home.path / opened.config.witness_store).resolve()
    if not folder.is_dir():
        yield problem("witness", phrase(texts.WITNESS_GONE, folder=folder), texts.WITNESS_GONE_REMEDY)
        return
    if folder.stat().st_dev == opened.home.path.stat().st_dev:
        yield warning("witness", phrase(texts.WITNESS_BESIDE, folder=folder), texts.WITNESS_REMEDY)
    else:
        yield ok("witness", texts.WITNESS_GOOD)
        yield from disk_findings(folder)


def _oversight(opened: CensusHome) -> Finding:
    reference = opened.config.keys.oversight
    if not reference:
        return warning("oversight", texts.NO_OVERSIGHT, texts.NO_OVERSIGHT_REMEDY)
    opened.home.read_key(reference, SealingKey.parse_text)
    return ok("oversight", texts.OVERSIGHT)
