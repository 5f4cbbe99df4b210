"""An audit of real nodes: what their homes export holds, with every noise proved, and what is changed in it does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import FRENCH, Deployment, Outcome, make, run_here, wait_until
from fakes.homes import address_of

from broker_common.tlog.tiles import encode_entry_bundle, parse_entry_bundle
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

pytestmark = pytest.mark.process

WHERE = "age >= 65"
AUDIT_FAILED = 1
# The researcher's three, of which nobody collects the last one, and the colleague's two.
ANSWERS = 5


@dataclass(frozen=True, slots=True)
class Lived:
    """A deployment with two researchers that is down, and what it exported."""

    deployment: Deployment
    # Copy of the census home, before the second half of it all.
    yesterday: Path
    handed_in: Path
    # Output while the nodes were up, and after everything was exported again into the same folder.
    first: dict[str, Any]
    written: dict[str, tuple[int, int]]


def export(home: Path, to: Path, *words: str) -> int:
    """Export a home; gives how many files were written."""
    written: int = run_here("audit", "export", "--home", home, "--to", to, "--json", *words).result["written"]
    return written


def export_all(deployment: Deployment, handed_in: Path) -> dict[str, int]:
    """Exports of every party, the census agency last; how many files were written for each."""
    homes = ("researcher", "colleague", "health", "census")
    parts = {"colleague": "researcher"}
    options = {"health": ("--criteria",)}
    return {
        home: export(deployment.home(home), handed_in / parts.get(home, home), *options.get(home, ())) for home in homes
    }


def audit(command: str, handed_in: Path, home: Path, *words: str | Path) -> Outcome:
    """`audit verify` or `audit replay`."""
    return run_here("audit", command, handed_in, "--home", home, "--json", *words)


def welcome_a_colleague(deployment: Deployment) -> None:
    """A second researcher, whom both agencies register while they serve."""
    colleague = deployment.home("colleague")
    places = [(f"--{agency}", address_of(deployment.home(agency))) for agency in ("health", "census")]
    who = ("--id", "researcher-2", "--organisation", "other-university", "--project", "prevention")
    assert run_here("researcher", "create", "--home", colleague, *who, *places[0], *places[1]).code == 0
    for owner, peers in {"colleague": ("health", "census"), "health": ("colleague",), "census": ("colleague",)}.items():
        card = deployment.directory.with_name(f"{owner}.card")
        said = run_here("keys", "card", "--home", deployment.home(owner), "--to", card, "--json").result
        for peer in peers:
            role, terms = ("researcher", ()) if peer == "colleague" else (peer, ("--project", "prevention"))
            words = (role, "register", "--home", deployment.home(peer), card, "--fingerprint", said["fingerprint"])
            assert run_here(*words, *terms, "--json").code == 0


def ask_as_colleague(deployment: Deployment) -> None:
    """A question of the second researcher's, answered."""
    words = ("--home", deployment.home("colleague"), "--where", WHERE, "--count", "all", "--json")
    assert run_here("researcher", "ask", *words).code == 0


def prepare(deployment: Deployment) -> str:
    """A question with its slot, not submitted yet."""

    async def work(session: Session) -> str:
        asked = await session.prepare(Wanted(WHERE, FRENCH, Precision(30), 1_000_000, "official-languages"))
        return asked.query

    query: str = deployment.in_session(work)
    return query


def rotate(deployment: Deployment) -> None:
    """New keys at both agencies for everything that an audit rests on; the nodes tell each other."""
    for agency, purposes in {"census": ("log", "witness", "answer"), "health": ("log", "witness")}.items():
        for purpose in purposes:
            words = ("--in", "0s", "--honour", "1s") if purpose == "answer" else ("--in", "0s")
            assert run_here("keys", "rotate", "--home", deployment.home(agency), purpose, *words).code == 0


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """Exported while nodes serve; then a restart, a refusal, new keys, one answer left; exported to the same folder."""
    folder = tmp_path_factory.mktemp("audit")
    deployment, handed_in = make(folder / "deployment", population=200), folder / "handed_in"
    with deployment.node("census"), deployment.node("health"):
        welcome_a_colleague(deployment)
        assert isinstance(deployment.ask_all([(WHERE, FRENCH)])[0], AskedQuestion)
        ask_as_colleague(deployment)
        before = export_all(deployment, handed_in)
        first = audit("replay", handed_in, deployment.home("auditor")).result
        refused = prepare(deployment)
    yesterday = Path(shutil.copytree(deployment.home("census"), folder / "yesterday"))
    with deployment.node("census"), deployment.node("health"):
        # Its slot is void: the node was started again.
        again = deployment.run("researcher", "ask", "--again", refused, "--json")
        assert again.error["code"] == "SLOT_UNUSABLE"
        rotate(deployment)
        assert isinstance(deployment.ask_all([(WHERE, FRENCH)])[0], AskedQuestion)
        ask_as_colleague(deployment)
        deployment.leave(WHERE, FRENCH)
        wait_until(lambda: len(deployment.tickets("census", "released")) == ANSWERS, "released")
        wait_until(lambda: sum(deployment.tickets("health", "settled").values()) == ANSWERS, "settled")
    after = export_all(deployment, handed_in)
    return Lived(deployment, yesterday, handed_in, first, {role: (before[role], after[role]) for role in before})


@pytest.fixture
def auditor(lived: Lived, tmp_path: Path) -> Path:
    """The auditor's home, of somebody who has been there while the nodes were up."""
    return Path(shutil.copytree(lived.deployment.home("auditor"), tmp_path / "auditor"))


def new(auditor: Path) -> Path:
    """The same home of somebody who has not been there before."""
    shutil.rmtree(auditor / "seen")
    return auditor


def codes(outcome: Outcome) -> list[str]:
    """Findings; the command has said so with its exit code."""
    assert outcome.code == AUDIT_FAILED
    return [problem["code"] for problem in outcome.json["problems"]]


def test_what_nodes_export_while_they_serve_holds(lived: Lived) -> None:
    """Verified, with both answers shown by their researchers and every commitment to criteria opened."""
    assert lived.first["verified"] is True
    assert [lived.first[what] for what in ("answers", "tickets_shown", "criteria_opened")] == [2, 2, 2]


def test_a_second_export_adds_what_is_new(lived: Lived) -> None:
    """Receipts and opened criteria of before are not written again, nor is anybody's else removed."""
    assert len(list((lived.handed_in / "researcher" / "receipts").iterdir())) == ANSWERS + 1
    # The prepared question's is written again, because it was refused meanwhile.
    assert (lived.written["researcher"], lived.written["colleague"]) == ((1, 3), (1, 1))
    assert len(list((lived.handed_in / "health" / "criteria").iterdir())) == ANSWERS + 1


def test_everything_that_happened_holds_and_the_noise_of_every_answer_is_proved(lived: Lived, auditor: Path) -> None:
    """After new keys, a refusal and an answer that nobody collected; with the oversight key and opened criteria."""
    assert audit("verify", lived.handed_in, auditor).result["verified"] is True
    openings = lived.deployment.home("census") / "openings"
    report = audit("replay", lived.handed_in, auditor, "--openings", openings).result
    assert (report["verified"], report["answers"], report["leakage"]["released"]) == (True, ANSWERS, ANSWERS)
    # Without a receipt nothing can be compared: the one that nobody collected.
    assert report["noise_proved"] == ANSWERS - 1
    assert report["criteria_opened"] == ANSWERS + 1
    assert report["tickets_shown"] == ANSWERS
    # Its header alone was sent, and that stands in the health log.
    assert (report["uncharged_samples"], report["unanswered"]) == (1, [])
    assert [(each["code"], each["count"]) for each in report["refusals"]] == [("SLOT_UNUSABLE", 1)]
    pending = {(each["code"], each["log"]): each["count"] for each in report["pending"]}
    assert pending.pop(("RELEASED", "census")) == 1
    assert not {code for code, _ in pending} - {"ENTRIES"}
    status = lived.deployment.json("census", "status")
    assert report["worst_belief"] == status["worst_belief"]


def test_one_flipped_bit_is_pointed_at(lived: Lived, auditor: Path, tmp_path: Path) -> None:
    """In the middle of the census log: the entry is named by its number."""
    handed_in = Path(shutil.copytree(lived.handed_in, tmp_path / "copy"))
    (bundle,) = (handed_in / "census" / "tile" / "entries" / "000.p").iterdir()
    entries = parse_entry_bundle(bundle.read_bytes(), int(bundle.name))
    number = len(entries) // 2
    entries[number] = entries[number][:20] + bytes([entries[number][20] ^ 1]) + entries[number][21:]
    bundle.write_bytes(encode_entry_bundle(entries))
    for command in ("verify", "replay"):
        done = audit(command, handed_in, auditor)
        assert codes(done) == ["ENTRY_DAMAGED"]
        assert (done.json["problems"][0]["log"], done.json["problems"][0]["entry"]) == ("census", number)


@pytest.mark.parametrize(
    ("whom", "expected"),
    [(lambda home: home, "ROLLED_BACK"), (new, "LOG_BEHIND")],
    ids=["an auditor who has been there", "a new auditor"],
)
def test_yesterdays_census_home_is_found_out(
    whom: Callable[[Path], Path], expected: str, lived: Lived, auditor: Path, tmp_path: Path
) -> None:
    """Its log is genuine and shorter than what everybody has seen: by the auditor's own note, or by all other parties."""
    handed_in = Path(shutil.copytree(lived.handed_in, tmp_path / "copy"))
    assert audit("replay", lived.handed_in, auditor).result["verified"] is True
    shutil.rmtree(handed_in / "census")
    export(lived.yesterday, handed_in / "census")
    done = audit("replay", handed_in, whom(auditor))
    assert {"LOG_BEHIND", expected} <= set(codes(done))
    assert {problem["log"] for problem in done.json["problems"] if problem["code"] == expected} == {"census"}
