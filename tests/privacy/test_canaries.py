"""Who learns what, searched byte by byte: the README's table against everything that every party holds or was told.

`TABLE` has a row for each secret that the recorded deployment carries: how to know it when it is met, the line of the
README's table that it belongs to, and where it lies. Where a row says `holds` it must be found; anywhere else it must not
be, except where the row says `may`. To watch over a new feature, add a row; if it needs new events, add them to
`privacy.recorded`. What is searched, and how likely chance is to find something: `privacy.evidence`, `privacy.canaries`.

Places are `party: part`: parts of a home (`source, keys, config, loads, load reports, samples, slots, store, other`), `output` (what the
party's commands print), `log` (what its nodes print), `process` (command line and environment of its nodes), and
`from PEER` (what the peer told it, as decrypted bytes and as messages), `pages` (every answer of its dashboard, by rank and
language) and `report` (the audit report). `people.csv` and `people.parquet` are `source`:
their own data, which they had before there was any deployment and have in the clear because that is what a load reads.
They are a place of their own, rather than left out, so that a row must name them, and so that the health agency's source
is known not to hold languages, nor the census agency's health records.

No row names a `log`, `pages` or a `report`: what operators, visitors and commissioners read holds no contents at all.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.homes import PARTIES, role_of
from privacy.canaries import Canary, Exhibit, Finding, Place, Searcher, forms, number_texts, pseudonym_forms
from privacy.evidence import on_the_wire, open_rosters, open_samples
from privacy.made_once import made_once
from privacy.marked_people import MARKED_CARD_ROW, MarkedPeople
from privacy.private_keys import key_forms
from privacy.recorded import COLLEAGUES_CRITERIA, KEYS, TYPED_CRITERIA, TYPED_QUESTION, TYPOS, WRONG_ROW, Recorded
from privacy.shown_pages import PUBLIC
from privacy.wiretap import Link
from tripartite.v1 import health_service_pb2

from broker_common.language import LANGUAGES
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition_wire import condition_from_wire
from census_node.release.slot_secrets import SLOT_SECRET_BYTES
from census_node.release.slots import BATCH
from health_node.texts import LATE, LATE_REMEDY, ROSTER_WAITS

pytestmark = pytest.mark.process

RANKS = ("reader", "staff", "operator")
README = Path(__file__).parents[2] / "README.md"
PARTS_OF = {
    "researcher": {"keys", "config", "store", "output", "log", "process", "from health", "from census"},
    "health": {
        *("source", "keys", "config", "loads", "load reports", "store", "output", "log", "process", "pages"),
        *("from researcher", "from census", "from colleague"),
    },
    "census": {
        *(
            "source",
            "keys",
            "config",
            "loads",
            "load reports",
            "samples",
            "ledgers",
            "slots",
            "rosters",
            "openings",
            "store",
            "witness store",
            "output",
            "log",
            "process",
            "pages",
        ),
        *("from researcher", "from health", "from colleague"),
    },
    "auditor": {"config", "keys", "store", "output", "report"},
    "colleague": {"keys", "config", "store", "output", "from health", "from census"},
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


def linkage_keys(recorded: Recorded) -> list[bytes]:
    """The chain of linkage keys, oldest first."""
    return key_forms((recorded.directory / "census" / "keys" / "linkage.key").read_bytes())


def pseudonyms(recorded: Recorded, cards: Collection[str]) -> list[list[bytes]]:
    """Pseudonyms of cards under each chain of keys there was; by hand, so that a fault of the product cannot hide."""
    first, *later = linkage_keys(recorded)
    names = [[hmac.digest(first, card.encode(), "sha256")[:16] for card in cards]]
    for key in later:
        step = b"tripartite/linkage-step/v1\0"
        names.append([hmac.digest(key, step + name, "sha256")[:16] for name in names[-1]])
    return names


def marked_pseudonym(chain_number: int) -> Callable[[Recorded], set[bytes]]:
    """Pseudonym of the one person who is looked for in every form there is."""

    def needles(recorded: Recorded) -> set[bytes]:
        cards = recorded.people.cards[MARKED_CARD_ROW : MARKED_CARD_ROW + 1]
        (pseudonym,) = pseudonyms(recorded, cards)[chain_number]
        return pseudonym_forms(pseudonym)

    return needles


def cohort_pseudonyms(chain_number: int) -> Callable[[Recorded], set[bytes]]:
    """Pseudonyms of everybody else in the large cohort."""

    def needles(recorded: Recorded) -> set[bytes]:
        others = recorded.people.cohort_cards[MARKED_CARD_ROW + 1 :]
        return set(chain.from_iterable(map(pseudonym_forms, pseudonyms(recorded, others)[chain_number])))

    return needles


def record_of(row: dict[str, str]) -> set[bytes]:
    """A row of a source without its card: as CSV, and its values one after the other."""
    values = list(row.values())[1:]
    return {separator.join(values).encode() for separator in (",", ";", "", "\t", "|")}


def language_columns(recorded: Recorded) -> set[bytes]:
    """Pieces of the registry's columns: 64 people's values in the order of their numbers, some 100 bits at least."""
    registry = max((recorded.directory / "census" / "registries").glob("*.npz"), key=lambda file: file.stat().st_mtime)
    with np.load(registry, allow_pickle=False) as stored:
        columns = [stored[f"value.{name}"].tobytes() for name in CENSUS_DICTIONARY.names]
    return {column[start : start + 64] for column in columns for start in range(0, len(column) - 64, 512)}


def submitted(recorded: Recorded, party: str = "researcher") -> list[health_service_pb2.SubmitRequest]:
    """Every question of one researcher as it reached the health node."""
    calls = recorded.traffic.calls(Link(party, "health"))
    requests = [request for call in calls for request in call.requests]
    return [request for request in requests if isinstance(request, health_service_pb2.SubmitRequest)]


def conditions(recorded: Recorded, party: str = "researcher") -> set[bytes]:
    """Serialised criteria, as researcher and health node keep and send them."""
    serialised = {request.criteria.SerializeToString(deterministic=True) for request in submitted(recorded, party)}
    return set(chain.from_iterable(map(forms, serialised)))


def of_the_colleague(recorded: Recorded) -> set[bytes]:
    """Another researcher's criteria, as text and as they travel."""
    return {COLLEAGUES_CRITERIA.encode(), *conditions(recorded, "colleague")}


def canonical_conditions(recorded: Recorded) -> set[bytes]:
    """Conditions from which criteria commitments and samples are computed."""
    read = {canonical_bytes(condition_from_wire(each.criteria, HEALTH_DICTIONARY)) for each in submitted(recorded)}
    return set(chain.from_iterable(map(forms, read)))


def nonces(recorded: Recorded) -> set[bytes]:
    """Nonces that hide criteria from guessers."""
    return set(chain.from_iterable(forms(request.criteria_nonce) for request in submitted(recorded)))


def roster_keys(recorded: Recorded) -> set[bytes]:
    """One an attempt, opened with the census agency's key."""
    opened = open_rosters(recorded.traffic, recorded.snapshots)
    return set(chain.from_iterable(forms(roster.frame_key) for roster in opened))


def roster_salts(recorded: Recorded) -> set[bytes]:
    """Salts that hide the health agency's people from guessers."""
    opened = open_rosters(recorded.traffic, recorded.snapshots)
    return set(chain.from_iterable(forms(roster.salt) for roster in opened))


def sample_keys(recorded: Recorded) -> set[bytes]:
    """One for each file of a sample that was charged."""
    return set(chain.from_iterable(map(forms, recorded.sample_keys)))


def set_salts(recorded: Recorded) -> set[bytes]:
    """Salts that hide a set of people from guessers."""
    opened = open_samples(recorded.traffic, recorded.snapshots)
    return set(chain.from_iterable(forms(sample.salt) for sample in opened))


def exact_counts(recorded: Recorded) -> set[int]:
    """Who of the cohort was linked, and who of them is counted, unless an answer without noise said so; and of everybody."""
    sizes = recorded.people.sizes
    return {sizes.linked, *({sizes.linked_cohort, sizes.french} - recorded.noisy_counts)}


def keys_named(name: str, *parties: str) -> Callable[[Recorded], set[bytes]]:
    """Every private key that was ever in the files of this name of these parties, whole and in parts."""
    return lambda recorded: {
        form
        for party in parties
        for key in recorded.snapshots.keys(party, name)
        for part in (key, *parts(key))
        for form in forms(part)
    }


def parts(key: bytes) -> list[bytes]:
    """A quarter of a key would be a leak, too. PEM text begins alike for all keys; its number is among the keys as well."""
    return [] if key.isascii() else [key[at : at + 8] for at in range(0, len(key), 8)]


def new_answers(recorded: Recorded) -> set[bytes]:
    """Serialised keys of answers that nobody had read yet."""
    return {form for key in recorded.unsealing_keys for form in forms(b64decode(key.split()[-1]))}


def answer_salts(recorded: Recorded) -> set[bytes]:
    """Salts of every answer that was read; no two are alike."""
    with contextlib.closing(sqlite3.connect(recorded.directory / "researcher" / "answers.db")) as db:
        rows = db.execute("select answer_salt from questions where noisy_counts is not null").fetchall()
    return set(chain.from_iterable(forms(row[0]) for row in rows))


# --- who may hold them -------------------------------------------------------------------------------------------------

CRITERIA, SAMPLE, LANGUAGE = "the health criteria", "who is in the sample", "anyone's language"
ROSTER = "who is in the health agency's data at all"
EXACT, NOISY, SIZE = "the exact count", "the noisy answer", "the exact size of the sample"
# Private keys of a home, besides the chain that links records: those on its card.
KEY_ROWS = [(party, name) for party, names in (*KEYS.items(), ("colleague", KEYS["researcher"])) for name in names]

TABLE = [
    # --- people
    # Rosters and samples are encrypted wherever they lie or travel, so that pseudonyms stand in the loads alone.
    Row("health card of a person", ROSTER, holds=("health: source", "census: source"), needles=marked_card),
    Row("pseudonym of a person", ROSTER, holds=("health: loads", "census: loads"), needles=marked_pseudonym(0)),
    Row("new pseudonym of a person", ROSTER, holds=("health: loads", "census: loads"), needles=marked_pseudonym(1)),
    Row(
        "pseudonyms of a whole cohort",
        SAMPLE,
        holds=("health: loads", "census: loads"),
        needles=cohort_pseudonyms(0),
    ),
    Row(
        "new pseudonyms of a whole cohort",
        SAMPLE,
        holds=("health: loads", "census: loads"),
        needles=cohort_pseudonyms(1),
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
    Row(
        "criteria of another researcher",
        CRITERIA,
        holds=("colleague: store", "colleague: output", "health: from colleague", "health: store"),
        needles=of_the_colleague,
        numbers=lambda _: {MarkedPeople.colleagues_visits},
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
            # The dictionary, on its way and where it is kept; figures of a load name its columns.
            *("colleague: from census", "census: config", "colleague: config", "researcher: config"),
            "census: load reports",
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
        holds=("health: output", "health: load reports", "census: output", "census: store"),
        numbers=lambda recorded: {recorded.people.sizes.health},
    ),
    Row(
        "number of people in the registry",
        "",
        holds=("census: output", "census: loads", "census: load reports"),
        numbers=lambda recorded: {recorded.people.sizes.census},
    ),
    # --- keys
    Row("linkage keys", "", holds=("health: keys", "census: keys"), needles=keys_named("linkage", "health", "census")),
    *(
        Row(f"{name} keys of the {party}", "", holds=(f"{party}: keys",), needles=keys_named(name, party))
        for party, name in KEY_ROWS
    ),
    Row("oversight key", EXACT, holds=("auditor: keys",), needles=keys_named("oversight", "auditor")),
    Row("keys of answers that are not read yet", NOISY, holds=("researcher: store",), needles=new_answers),
    Row("keys that rosters travel under", ROSTER, needles=roster_keys),
    Row("salts of rosters", ROSTER, holds=("health: store", "census: store"), needles=roster_salts),
    Row("keys of the files of samples", SAMPLE, holds=("census: store",), needles=sample_keys),
    # At the census agency they lie in those files.
    Row("salts of set commitments", SIZE, holds=("health: store",), needles=set_salts),
    Row(
        "secret of a noise slot",
        "",
        holds=("census: slots",),
        needles=lambda recorded: set(chain.from_iterable(map(forms, recorded.slot_secrets))),
    ),
    # A receipt promises a hash of the noisy count; with this it can be tried out.
    Row("salts of answers", NOISY, holds=("researcher: store",), may=("colleague: store",), needles=answer_salts),
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
def searcher(canaries: dict[str, Canary]) -> Searcher:
    """Looks for every row's secret."""
    return Searcher(canaries.values())


@pytest.fixture(scope="module")
def findings(
    recorded: Recorded, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> set[Finding]:
    """Every secret wherever it is."""

    def search(_: Path) -> set[Finding]:
        searcher: Searcher = request.getfixturevalue("searcher")
        return searcher.search(recorded.evidence())

    return made_once(tmp_path_factory, "findings", search)


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
def test_it_would_be_found_in_any_form(row: Row, canaries: dict[str, Canary], searcher: Searcher) -> None:
    """Every form of every secret is found where it is put between other bytes, also those that rightly are nowhere."""
    canary = canaries[row.name]
    assert canary.needles or canary.numbers, "there is nothing to look for"

    def is_found(exhibit: Exhibit) -> bool:
        return canary.name in {finding.canary for finding in searcher.search([exhibit])}

    texts = sorted(text for number in canary.numbers for text in number_texts(number))
    for form in [*sorted(canary.needles)[:: 1 + len(canary.needles) // 200], *texts]:
        assert is_found(Exhibit(Place("", ""), "", b"\xfe(" + form + b") \xfe")), form
    for number in canary.numbers:
        assert is_found(Exhibit(Place("", ""), "", b"", frozenset({1, number})))


@pytest.mark.parametrize("row", [row for row in TABLE if row.line], ids=str)
def test_the_table_says_what_the_readme_says(row: Row) -> None:
    """Where the README's table says `never`, `no` or `not`, no row lets the party have anything of it."""
    rows = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    lines = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    parties = next(line[1:] for line in lines if line[0] == "who learns what")
    (cells,) = [line[1:] for line in lines if line[0] == row.line]
    columns = [party for party in PARTIES if role_of(party) == party]
    assert [party.split()[0] for party in parties] == columns
    for party, cell in zip(columns, cells, strict=True):
        if re.search(r"\b(never|no|not)\b", cell):
            holders = {role_of(place.partition(":")[0]) for place in (*row.holds, *row.may)}
            assert party not in holders, cell


def test_everything_was_searched(evidence: list[Exhibit]) -> None:
    """Every part of every home, every output, log and process, and every direction of every link is in the search."""
    searched = {exhibit.place for exhibit in evidence if exhibit.data and exhibit.place.part != "other"}
    assert searched == {Place(party, part) for party, parts in PARTS_OF.items() for part in parts}
    # Files that no part of a home accounts for are locks.
    assert not [exhibit for exhibit in evidence if exhibit.place.part == "other" and exhibit.data]


# --- operators' logs, and what is left behind --------------------------------------------------------------------------

LOG_LINE = re.compile(
    r"timestamp=\S+ level=info event=(refused|answered|\"inbox did not take an answer\"|\"cards were not exchanged\"|"
    r"\"the census log was not cosigned\"|\"connection refused\")"
    r"( reason=[A-Z_0-9]+)?( rpc=/tripartite\.v1\.\w+/\w+)?( researcher=researcher-1)?( peer=\w+)?( code=[A-Z_]+)?( retry_seconds=[0-9.]+)?"
    r"( request=[0-9a-f]{8})?"
    # A busy machine is late; it says so, and nothing of the sample.
    rf"|timestamp=\S+ level=warning event=\"{re.escape(LATE)}\" remedy=\"{re.escape(LATE_REMEDY)}\"( request=[0-9a-f]{{8}})?"
    r"|timestamp=\S+ level=warning event=\"the work of a round took longer than a tick\""
    r"|timestamp=\S+ level=info event=\"the census node has the roster of the load in force\""
    r"|timestamp=\S+ level=info event=\"a roster is in force\" agency=health-agency"
    rf"|timestamp=\S+ level=warning event=\"{re.escape(ROSTER_WAITS)}\" code=[A-Z_]+ remedy=\".*\""
    # The transport's own words about a stranger.
    r"|I\d{4} \S+ +\d+ ssl_transport_security\.cc:\d+\] Handshake failed with error SSL_ERROR_SSL: error:[0-9a-f]+:"
    r"SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: self signed certificate"
)


@pytest.mark.parametrize("role", ["researcher", "health", "census"])
def test_logs_say_what_happened_and_nothing_of_what_was_asked(role: str, recorded: Recorded) -> None:
    """Every line that a node logged is an event, an RPC, a peer and a code: no ids of questions, no sizes, no texts."""
    # The random id of a call may stand anywhere in its lines.
    log = re.sub(r" request=[0-9a-f]{8}\b", "", recorded.deployment.log(role).decode())
    lines = log.splitlines()
    assert [line for line in lines if not LOG_LINE.fullmatch(line)] == []
    assert lines or role == "researcher", "nothing was logged, so that nothing was tested"


def test_pages_and_report_had_something_to_say(evidence: list[Exhibit]) -> None:
    """Figures of people and of cohorts, metrics, every page for every rank in either language, and a report in both."""
    of = {
        place: [each for each in evidence if str(each.place) == place] for place in ("census: pages", "health: pages")
    }
    instants = [f", {instant}" for instant in ("while all is well", "after the shutdown")]
    for place, paths in (("census: pages", ("", "people", "activity", "orders")), ("health: pages", ("", "activity"))):
        shown = {each.name: each.data for each in of[place]}
        for instant in instants:
            names = {
                f"{rank} {tongue} /{path}" for rank in RANKS for tongue in LANGUAGES for path in (*paths, "nowhere")
            }
            names |= {f"en {path}" for path in PUBLIC}
            assert names == {name.removesuffix(instant) for name in shown if name.endswith(instant)}
            assert b"tripartite_log_entries" in shown[f"en /metrics{instant}"]
        figures = {"census: pages": "staff en /people", "health: pages": "staff en /activity"}[place]
        assert b"As of" in shown[figures + instants[0]]
    reports = [each.data for each in evidence if str(each.place) == "auditor: report"]
    assert len(reports) == len(LANGUAGES)
    assert all(b"official-languages" in report for report in reports)


def test_sources_of_either_kind_were_searched(findings: set[Finding]) -> None:
    """The rows about people speak of what came from CSV and of what came from Parquet."""
    sources = {
        (str(each.place), each.exhibit.split(",")[0].split(" ")[0]) for each in findings if "card of" in each.canary
    }
    kinds = {(f"{agency}: source", f"people.{kind}") for agency in ("health", "census") for kind in ("csv", "parquet")}
    assert sources == kinds


def test_every_file_of_keys_has_a_row(recorded: Recorded) -> None:
    """Each kind of key that a home holds is looked for, and each was replaced on the way: old and new ones alike."""
    held = {(party, name) for party in PARTIES for name in recorded.snapshots.key_files(party)}
    assert held == {*KEY_ROWS, ("health", "linkage"), ("census", "linkage"), ("auditor", "oversight")}
    forms_of_one = {"tls": 3}
    few = {each for each in held if len(recorded.snapshots.keys(*each)) < 2 * forms_of_one.get(each[1], 1)}
    # The oversight body's is on nobody's card.
    assert few == {each for each in held if each[0] in {"colleague", "auditor"}}


def test_keys_of_answers_are_gone_when_there_is_nothing_to_open(recorded: Recorded) -> None:
    """A copy of the researcher's disk cannot open answers that were read or have expired, in whatever page they lay."""
    stores = [file.read_bytes() for file in (recorded.directory / "researcher").glob("answers.db*")]
    searched = [Exhibit(Place("researcher", "store"), "", content) for content in stores]
    assert Searcher([Canary("", new_answers(recorded))]).search(searched) == set()
    assert len(recorded.unsealing_keys) == len(("collected", "pushed", "expired"))


def test_nothing_is_left_in_temporary_files(recorded: Recorded) -> None:
    """No node, nor its data engine, puts anything outside its home."""
    assert list(recorded.temporary.rglob("*")) == []


def test_a_sample_is_forgotten_with_its_key(recorded: Recorded) -> None:
    """A finder of an answered sample's file, under a second name or in a copy, finds no key to it."""
    assert len(recorded.wiped_samples) == len(recorded.sample_keys) == len(("killed", "rotated"))
    # All have one length, no matter who is in it.
    assert {sample.stat().st_size for sample in recorded.wiped_samples} == {262_144 + 16}
    assert list((recorded.directory / "census" / "samples").iterdir()) == []
    home = [file for file in (recorded.directory / "census").rglob("*") if file.is_file()]
    searched = [Exhibit(Place("census", "store"), file.name, file.read_bytes()) for file in home]
    assert Searcher([Canary("", sample_keys(recorded))]).search(searched) == set()


def test_noise_secrets_are_overwritten_when_they_are_used_and_when_they_never_will_be(recorded: Recorded) -> None:
    """A file of a batch, seen under a second name, reads as zeros when the node has been started again twice."""
    assert len(recorded.wiped_slots) == len(("killed", "rotated"))
    for batch in recorded.wiped_slots:
        content = batch.read_bytes()
        assert len(content) == BATCH * SLOT_SECRET_BYTES
        assert not any(content)
    # Secrets of the last batch that have not been used are there, and nowhere else.
    (batch,) = (recorded.directory / "census" / "slots").iterdir()
    used = [event["slot"] for event in recorded.deployment.events("census") if event["type"] == "charged"]
    first, content = int(batch.stem), batch.read_bytes()
    secrets = [content[at : at + SLOT_SECRET_BYTES] for at in range(0, len(content), SLOT_SECRET_BYTES)]
    assert {first + place for place, secret in enumerate(secrets) if not any(secret)} == {
        slot for slot in used if slot >= first
    }


def test_receipts_hold_no_count(evidence: list[Exhibit], recorded: Recorded) -> None:
    """A receipt to show to others says what was charged, and neither the answer nor the salt of its hash."""
    receipts = [exhibit for exhibit in evidence if exhibit.name.endswith(": questions.signed_receipt") and exhibit.data]
    assert len({receipt.data for receipt in receipts}) >= len(recorded.outcomes) - 1
    canary = Canary("", answer_salts(recorded), recorded.noisy_counts)
    assert Searcher([canary]).search(receipts) == set()
    assert recorded.noisy_counts


def test_what_a_ticket_was_asked_of_is_what_was_recorded(recorded: Recorded) -> None:
    """The recording is of the real thing: opened with the census agency's key, the samples are the cohorts."""
    opened = open_samples(recorded.traffic, recorded.snapshots)
    chains = list(dict.fromkeys(sample.roster.manifest.linkage for sample in opened))
    named = pseudonyms(recorded, recorded.people.cohort_cards)
    assert set(named[0]).isdisjoint(named[1])
    # In each chain two answers of everybody; in the second also what was refused when its slot was forgotten.
    for linkage, names, whole in zip(chains, named, (2, 3), strict=True):
        cohort = sorted(names)
        of_chain = [sample for sample in opened if sample.roster.manifest.linkage == linkage]
        # However often each was handed over: while a roster is being joined, its samples are told to come back.
        samples = list({sample.call.query: sample.pseudonyms for sample in of_chain}.values())
        assert samples.count(cohort) == whole
        assert [] in samples
        assert all(set(sample) <= set(cohort) for sample in samples)
    assert len(list(on_the_wire(recorded.traffic))) > len(opened)
