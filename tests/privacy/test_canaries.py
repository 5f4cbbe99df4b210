"""Who learns what, searched byte by byte: the README's table against everything that every party holds or was told.

`TABLE` has a row for each secret that the recorded deployment carries: how to know it when it is met, the line of the
README's table that it belongs to, and where it lies. Where a row says `holds` it must be found; anywhere else it must not
be, except where the row says `may`. To watch over a new feature, add a row; if it needs new events, add them to
`fakes.recorded`. What is searched, and how likely chance is to find something: `fakes.evidence`, `fakes.canaries`.

Places are `party: part`: parts of a home (`source, keys, config, loads, samples, store, other`), `output` (what the
party's commands print), `log` (what its nodes print), `process` (command line and environment of its nodes), and
`from PEER` (what the peer told it, as decrypted bytes and as messages). The `people.csv` of the two agencies are `source`:
their own data, which they had before there was any deployment and have in the clear because that is what a load reads.
They are a place of their own, rather than left out, so that a row must name them, and so that the health agency's source
is known not to hold languages, nor the census agency's health records.

No row names a `log`: the logs of operators hold no contents at all.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from fakes.canaries import Canary, Exhibit, Finding, Place, Searcher, forms, number_texts, pseudonym_forms
from fakes.evidence import on_the_wire, open_samples
from fakes.homes import PARTIES, linkage_key, private_keys
from fakes.marked_people import MARKED_CARD_ROW, MarkedPeople
from fakes.recorded import TYPED_CRITERIA, TYPED_QUESTION, TYPOS, WRONG_ROW, Recorded
from fakes.wiretap import Link
from tripartite.v1 import health_service_pb2

from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition_wire import condition_from_wire
from health_node.dictionary import HEALTH_DICTIONARY

pytestmark = pytest.mark.process

README = Path(__file__).parents[2] / "README.md"
PARTS_OF = {
    "researcher": {"keys", "config", "store", "output", "log", "process", "from health", "from census"},
    "health": {
        *("source", "keys", "config", "loads", "store", "output", "log", "process"),
        *("from researcher", "from census"),
    },
    "census": {
        *("source", "keys", "config", "loads", "samples", "store", "output", "log", "process"),
        *("from researcher", "from health"),
    },
    "auditor": {"config"},
}


@dataclass(frozen=True)
class Row:
    """One secret: where it must be found, where it may be, and, by leaving it out, where it must not."""

    name: str
    # First cell of the line of the README's table that says who may learn it; empty for what that table leaves out.
    line: str
    holds: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    needles: Callable[[Recorded], Collection[bytes]] = lambda _: ()
    numbers: Callable[[Recorded], Collection[int]] = lambda _: ()

    def canary(self, recorded: Recorded) -> Canary:
        return Canary(self.name, self.needles(recorded), self.numbers(recorded))

    def __str__(self) -> str:
        return self.name


# --- what the secrets are ------------------------------------------------------------------------------------------------


def marked_card(recorded: Recorded) -> set[bytes]:
    """As cards are written."""
    card = recorded.people.cards[MARKED_CARD_ROW]
    parts = card[:4], card[4:7], card[7:]
    return {separator.join(parts).encode() for separator in ("", " ", "-")}


def pseudonyms(recorded: Recorded, cards: Collection[str]) -> list[bytes]:
    """What cards become; by hand, so that a fault of the product cannot hide."""
    key = linkage_key(recorded.directory)
    return [hmac.digest(key, card.encode(), "sha256")[:16] for card in cards]


def marked_pseudonym(recorded: Recorded) -> set[bytes]:
    """Of the one person who is looked for in every form there is."""
    (pseudonym,) = pseudonyms(recorded, recorded.people.cards[MARKED_CARD_ROW : MARKED_CARD_ROW + 1])
    return pseudonym_forms(pseudonym)


def cohort_pseudonyms(recorded: Recorded) -> set[bytes]:
    """Of everybody else in the large cohort."""
    others = recorded.people.cohort_cards[MARKED_CARD_ROW + 1 :]
    return set(chain.from_iterable(map(pseudonym_forms, pseudonyms(recorded, others))))


def record_of(row: dict[str, str]) -> set[bytes]:
    """A row of a source without its card: as CSV, and its values one after the other."""
    values = list(row.values())[1:]
    return {separator.join(values).encode() for separator in (",", ";", "", "\t", "|")}


def language_columns(recorded: Recorded) -> set[bytes]:
    """Pieces of the registry's columns: 64 people's values in the order of their pseudonyms, some 100 bits at least."""
    (registry,) = (recorded.directory / "census" / "registries").glob("*.npz")
    with np.load(registry, allow_pickle=False) as stored:
        columns = [stored[name].tobytes() for name in stored.files if stored[name].dtype == np.uint8]
    assert len(columns) == 4
    return {column[start : start + 64] for column in columns for start in range(0, len(column) - 64, 512)}


def submitted(recorded: Recorded) -> list[health_service_pb2.SubmitRequest]:
    """Every question as it reached the health node."""
    calls = recorded.tap.calls(Link("researcher", "health"))
    requests = [request for call in calls for request in call.requests]
    return [request for request in requests if isinstance(request, health_service_pb2.SubmitRequest)]


def conditions(recorded: Recorded) -> set[bytes]:
    """Serialised criteria, as researcher and health node keep and send them."""
    serialised = {request.criteria.SerializeToString(deterministic=True) for request in submitted(recorded)}
    return set(chain.from_iterable(map(forms, serialised)))


def canonical_conditions(recorded: Recorded) -> set[bytes]:
    """What criteria commitments and samples are computed from."""
    read = {canonical_bytes(condition_from_wire(each.criteria, HEALTH_DICTIONARY)) for each in submitted(recorded)}
    return set(chain.from_iterable(map(forms, read)))


def nonces(recorded: Recorded) -> set[bytes]:
    """What hides criteria from whoever could guess them."""
    return set(chain.from_iterable(forms(request.criteria_nonce) for request in submitted(recorded)))


def frame_keys(recorded: Recorded) -> set[bytes]:
    """One an attempt, opened with the census agency's key."""
    opened = open_samples(recorded.tap, recorded.directory)
    return set(chain.from_iterable(forms(sample.frame_key) for sample in opened))


def set_salts(recorded: Recorded) -> set[bytes]:
    """What hides a set of pseudonyms from whoever could guess it."""
    opened = open_samples(recorded.tap, recorded.directory)
    return set(chain.from_iterable(forms(sample.salt) for sample in opened))


def exact_counts(recorded: Recorded) -> set[int]:
    """Who of the cohort was linked, and who of them is counted, unless an answer without noise said so; and of everybody."""
    sizes = recorded.people.sizes
    return {sizes.linked, *({sizes.linked_cohort, sizes.french} - recorded.noisy_counts)}


def keys_of(party: str) -> Callable[[Recorded], set[bytes]]:
    """All private keys of one party, without those that a row of their own speaks of."""

    def needles(recorded: Recorded) -> set[bytes]:
        own = dict(private_keys(recorded.directory / party))
        for name in SHARED_OR_SPECIAL:
            own.pop(name, None)
        return set(chain.from_iterable(map(forms, chain.from_iterable(own.values()))))

    return needles


def key_named(party: str, name: str) -> Callable[[Recorded], set[bytes]]:
    """One private key of one party."""
    return lambda recorded: set(chain.from_iterable(map(forms, dict(private_keys(recorded.directory / party))[name])))


# --- who may hold them -------------------------------------------------------------------------------------------------

CRITERIA, SAMPLE, LANGUAGE = "the health criteria", "who is in the sample", "anyone's language"
EXACT, NOISY, SIZE = "the exact count", "the noisy answer", "the exact size of the sample"
SHARED_OR_SPECIAL = ("linkage", "sampling")

TABLE = [
    # --- people
    Row("health card of a person", SAMPLE, holds=("health: source", "census: source"), needles=marked_card),
    Row(
        # Nine in ten are in the sample that is on disk when the census node is killed.
        "pseudonym of a person",
        SAMPLE,
        holds=("health: loads", "census: loads"),
        may=("census: samples",),
        needles=marked_pseudonym,
    ),
    Row(
        "pseudonyms of a whole cohort",
        SAMPLE,
        holds=("health: loads", "census: loads", "census: samples"),
        needles=cohort_pseudonyms,
    ),
    Row(
        "health record of a person",
        "",
        holds=("health: source",),
        needles=lambda recorded: record_of(recorded.people.health[MARKED_CARD_ROW]),
    ),
    Row(
        "language record of a person",
        LANGUAGE,
        holds=("census: source",),
        needles=lambda recorded: record_of(recorded.people.census[MARKED_CARD_ROW]),
    ),
    Row("language of many people", LANGUAGE, holds=("census: loads",), needles=language_columns),
    Row(
        "names of a person and a household in the census",
        LANGUAGE,
        holds=("census: source",),
        needles=lambda _: {MarkedPeople.person.encode(), MarkedPeople.household.encode()},
    ),
    Row(
        "a value that a load refused",
        "",
        holds=("health: source", "census: source"),
        needles=lambda _: {WRONG_ROW.encode()},
    ),
    # --- what was asked
    Row(
        # Parsed on the researcher's machine and then forgotten: what is kept is the canonical text.
        "criteria as they were typed",
        CRITERIA,
        needles=lambda _: {
            TYPED_CRITERIA.encode(),
            *(part.encode() for part in TYPED_CRITERIA.split() if len(part) > 9),
        },
    ),
    Row(
        "criteria as text",
        CRITERIA,
        holds=("researcher: store", "researcher: output"),
        needles=lambda _: {
            f"hospital_visits = {MarkedPeople.visits}".encode(),
            f"emergency_visits >= {MarkedPeople.emergency_visits}".encode(),
            MarkedPeople.large_cohort.encode(),
        },
    ),
    Row(
        "values that criteria name",
        CRITERIA,
        holds=(
            *("researcher: store", "researcher: output", "health: from researcher"),
            *("health: source", "health: loads", "health: store"),
        ),
        needles=lambda _: {MarkedPeople.admission.encode()},
        numbers=lambda _: {MarkedPeople.visits, MarkedPeople.emergency_visits},
    ),
    Row(
        "criteria as they travel",
        CRITERIA,
        holds=("researcher: store", "health: from researcher", "health: store"),
        needles=conditions,
    ),
    Row("criteria as they are hashed", CRITERIA, needles=canonical_conditions),
    Row(
        "what opens the criteria commitment",
        CRITERIA,
        holds=("researcher: store", "health: from researcher", "health: store"),
        needles=nonces,
    ),
    Row(
        # The ticket carries the question past the health node, which could not vouch for it otherwise.
        "language variable that was asked about",
        "",
        holds=(
            *("researcher: from census", "researcher: store", "researcher: output"),
            *("health: from researcher", "health: store"),
            *("census: source", "census: loads", "census: from researcher", "census: from health", "census: store"),
        ),
        may=("health: from census",),
        needles=lambda _: {TYPED_QUESTION.split()[0].encode()},
    ),
    Row(
        "words that were mistyped",
        "",
        holds=("researcher: output",),
        needles=lambda _: {word.encode() for word in TYPOS},
    ),
    # --- what was counted
    Row("exact counts and figures of linkage", EXACT, numbers=exact_counts),
    Row("size of the sample", SIZE, numbers=lambda recorded: {recorded.people.sizes.cohort}),
    Row(
        "large noisy answers",
        NOISY,
        holds=("researcher: store", "researcher: output"),
        numbers=lambda recorded: recorded.noisy_counts,
    ),
    Row(
        "number of people in the health data",
        "",
        holds=("health: output",),
        numbers=lambda recorded: {recorded.people.sizes.health},
    ),
    Row(
        "number of people in the registry",
        "",
        holds=("census: output", "census: loads"),
        numbers=lambda recorded: {recorded.people.sizes.census},
    ),
    # --- keys
    Row("linkage key", "", holds=("health: keys", "census: keys"), needles=key_named("census", "linkage")),
    Row("sampling key", "", holds=("health: keys",), needles=key_named("health", "sampling")),
    Row("private keys of the researcher", "", holds=("researcher: keys",), needles=keys_of("researcher")),
    Row("private keys of the health agency", "", holds=("health: keys",), needles=keys_of("health")),
    Row("private keys of the census agency", "", holds=("census: keys",), needles=keys_of("census")),
    Row(
        "keys of answers that are not read yet",
        NOISY,
        holds=("researcher: store",),
        needles=lambda recorded: set(
            chain.from_iterable(forms(b64decode(key.split()[-1])) for key in recorded.opening_keys)
        ),
    ),
    Row("keys of frames", SAMPLE, needles=frame_keys),
    Row("salts of set commitments", SIZE, holds=("health: store", "census: store"), needles=set_salts),
    Row(
        "secret of a noise slot",
        "",
        holds=("census: samples",),
        needles=lambda recorded: set(chain.from_iterable(map(forms, recorded.slot_secrets))),
    ),
]


# --- the search --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evidence(recorded: Recorded) -> list[Exhibit]:
    """Everything that anybody held or was told."""
    return list(recorded.evidence())


@pytest.fixture(scope="module")
def canaries(recorded: Recorded) -> dict[str, Canary]:
    """Every row's secret."""
    return {row.name: row.canary(recorded) for row in TABLE}


@pytest.fixture(scope="module")
def findings(canaries: dict[str, Canary], evidence: list[Exhibit]) -> set[Finding]:
    """Every secret wherever it is."""
    return Searcher(canaries.values()).search(evidence)


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_nobody_else_holds_it(row: Row, findings: set[Finding]) -> None:
    """A secret is nowhere but where its row says: in no other party's hands, and in no log or output of its own."""
    elsewhere = {
        (str(finding.place), finding.exhibit)
        for finding in findings
        if finding.canary == row.name and str(finding.place) not in {*row.holds, *row.may}
    }
    assert elsewhere == set()


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_who_may_hold_it_does(row: Row, findings: set[Finding]) -> None:
    """A secret is found everywhere it is supposed to be: the search works, and the recorded life had it."""
    assert set(row.holds) <= {str(finding.place) for finding in findings if finding.canary == row.name}


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_it_would_be_found_in_any_form(row: Row, canaries: dict[str, Canary]) -> None:
    """Every form of every secret is found where it is put between other bytes, also those that rightly are nowhere."""
    canary = canaries[row.name]
    assert canary.needles or canary.numbers, "there is nothing to look for"
    searcher = Searcher([canary])
    texts = sorted(text for number in canary.numbers for text in number_texts(number))
    for form in [*sorted(canary.needles)[:: 1 + len(canary.needles) // 200], *texts]:
        assert searcher.search([Exhibit(Place("", ""), "", b"\xfe(" + form + b") \xfe")]), form
    for number in canary.numbers:
        assert searcher.search([Exhibit(Place("", ""), "", b"", frozenset({1, number}))])


@pytest.mark.parametrize("row", [row for row in TABLE if row.line], ids=str)
def test_the_table_says_what_the_readme_says(row: Row) -> None:
    """Where the README's table says `never`, `no` or `not`, no row lets the party have anything of it."""
    rows = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    lines = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    parties = next(line[1:] for line in lines if line[0] == "who learns what")
    (cells,) = [line[1:] for line in lines if line[0] == row.line]
    assert [party.split()[0] for party in parties] == list(PARTIES)
    for party, cell in zip(PARTIES, cells, strict=True):
        if re.search(r"\b(never|no|not)\b", cell):
            assert not [place for place in (*row.holds, *row.may) if place.startswith(f"{party}: ")], cell


def test_everything_was_searched(evidence: list[Exhibit]) -> None:
    """Every part of every home, every output, log and process, and every direction of every link is in the search."""
    searched = {exhibit.place for exhibit in evidence if exhibit.data and exhibit.place.part != "other"}
    assert searched == {Place(party, part) for party, parts in PARTS_OF.items() for part in parts}
    # Files that no part of a home accounts for are locks.
    assert not [exhibit for exhibit in evidence if exhibit.place.part == "other" and exhibit.data]


# --- operators' logs, and what is left behind --------------------------------------------------------------------------

LOG_LINE = re.compile(
    r"timestamp=\S+ level=(info|error) event=(refused|unforeseen|\"inbox did not take an answer\")"
    r"( rpc=/tripartite\.v1\.\w+/\w+)?( code=[A-Z_]+)?( retry_seconds=[0-9.]+)?"
)


@pytest.mark.parametrize("role", ["researcher", "health", "census"])
def test_logs_say_what_happened_and_nothing_of_what_was_asked(role: str, recorded: Recorded) -> None:
    """Every line that a node logged is an event, an RPC and a code: no ids, no sizes, no texts."""
    lines = recorded.deployment.log(role).decode().splitlines()
    assert [line for line in lines if not LOG_LINE.fullmatch(line)] == []
    assert lines or role == "researcher", "nothing was logged, so that nothing was tested"


def test_nothing_is_left_in_temporary_files(recorded: Recorded) -> None:
    """No node, nor its data engine, puts anything outside its home."""
    assert list(recorded.temporary.rglob("*")) == []


def test_a_sample_is_overwritten_before_it_is_removed(recorded: Recorded) -> None:
    """Under a second name of its file, a sample that was answered reads as zeros, its noise secret included."""
    for sample in recorded.wiped_samples:
        content = sample.read_bytes()
        assert len(content) > 1_000_000 // 4
        assert not any(content)
    assert list((recorded.directory / "census" / "samples").iterdir()) == []


def test_what_a_ticket_was_asked_of_is_what_was_recorded(recorded: Recorded) -> None:
    """The recording is of the real thing: opened with the census agency's key, the samples are the cohorts."""
    cohort = sorted(pseudonyms(recorded, recorded.people.cohort_cards))
    samples = [sample.pseudonyms for sample in open_samples(recorded.tap, recorded.directory)]
    assert samples.count(cohort) == 2
    assert [] in samples
    assert all(set(sample) <= set(cohort) for sample in samples)
    assert len(list(on_the_wire(recorded.tap))) > len(samples)
