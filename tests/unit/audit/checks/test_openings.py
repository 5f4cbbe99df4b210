"""Openings, read with the oversight key: honest ones prove the noise of every answer, and no other opening proves any."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import logs
from fakes.deployment import run_here
from fakes.history import RELEASE, Asked, Exports, History, MemoryPart, auditor, honest, replayed, slot_secret, write

from broker_common.audit.audit import Audited
from broker_common.audit.checks.openings import OpenedOnSite
from broker_common.audit.export.reading import FolderPart
from broker_common.audit.home import AuditorHome
from broker_common.audit.report.verdict import report_json, report_text
from broker_common.crypto.commitments import commit_answer, hash_bytes
from broker_common.crypto.sealing import UnsealingKey, opening_info
from broker_common.privacy.opening import OPENING_SUFFIX, SEALED_OPENING_BYTES, Opening, seal_opening
from broker_common.query.question import REST, Cell, Question
from broker_common.values import NoisyCounts

KEY = UnsealingKey.generate(os.urandom)
# Number of the charge that the tests lie about: the second answer of three.
CHARGED = 12


@pytest.fixture
def history() -> History:
    """Three answers, with true openings."""
    return honest(3)


def audited(home: AuditorHome, exports: Exports, openings: dict[str, bytes], key: UnsealingKey = KEY) -> Audited:
    """A replay with these openings."""
    return replayed(exports, home, OpenedOnSite(MemoryPart(openings), key))


def found(audit: Audited) -> list[tuple[str, str, int | None]]:
    """Code, log and entry of every problem."""
    return [(problem.code, problem.log, problem.entry) for problem in audit.findings.problems]


def opening_of(asked: Asked) -> Opening:
    """The census agency's opening of one question."""
    assert asked.opening is not None
    return asked.opening


def name_of(asked: Asked) -> str:
    """The name of that file."""
    return asked.hash + OPENING_SUFFIX


def lied(history: History, **changes: Any) -> dict[str, bytes]:
    """True openings but the second one, which is sealed as it should be and says something else."""
    asked = history.asked[1]
    opening = msgspec.structs.replace(opening_of(asked), **changes)
    return history.openings(KEY.sealing_key) | {name_of(asked): seal_opening(opening, KEY.sealing_key)}


def test_the_noise_of_every_answer_is_computed_again(history: History, home: AuditorHome) -> None:
    """Honest openings: nothing is wrong, every answer is proved, and nothing about noise is left to be said."""
    audit = audited(home, history.exports(), history.openings(KEY.sealing_key))
    assert found(audit) == []
    assert report_json(audit)["noise_proved"] == report_json(audit)["answers"] == 3
    assert not any("noise" in text for text in audit.findings.not_checked)
    assert "noise      of 3 answers" in report_text(audit)


def test_without_openings_nothing_is_claimed(history: History, home: AuditorHome) -> None:
    """Nobody asked for the noise: the report has no figure of it and says that it was not checked."""
    audit = replayed(history.exports(), home)
    assert report_json(audit)["noise_proved"] is None
    assert "computed again" not in report_text(audit)
    assert any("oversight key" in text for text in audit.findings.not_checked)


def test_noise_that_was_chosen_by_choosing_the_sample_is_found(history: History, home: AuditorHome) -> None:
    """A census agency that tries samples until the noise suits it has to charge that one, which the health agency never sent.

    With the sample that was sent in the log, an answer that was made of another one is not the one of its opening.
    """
    asked = history.ask("submit forward")
    index = history.charge(asked)
    history.report_charge(asked)
    history.cosign()
    history.release(asked)
    history.deliver(asked)
    history.settle(asked)
    assert asked.opening is not None
    other = asked.opening.answer_hash(30, hash_bytes(b"tried until it suited").hex())
    history.receive(asked, answer_hash=bytes.fromhex(other))
    history.cosign()
    audit = audited(home, history.exports(), history.openings(KEY.sealing_key))
    assert found(audit) == [("NOISE_WRONG", "census", index)]
    assert audit.noise == 3


def test_the_count_in_an_opening_is_said_to_be_the_agencys_word(history: History, home: AuditorHome) -> None:
    """Everybody who reads that the noise is proved reads also what is not."""
    audit = audited(home, history.exports(), history.openings(KEY.sealing_key))
    assert any("the census agency's word" in text for text in audit.findings.not_checked)


@pytest.mark.parametrize(
    ("changes", "code", "what"),
    [
        ({"counts": (43,)}, "NOISE_WRONG", "query"),
        ({"counts": (0,)}, "NOISE_WRONG", "query"),
        ({"slot": 2}, "OPENING_DIFFERS", "slot, slot secret"),
        ({"slot": 2, "secret": slot_secret(2).expose().hex()}, "OPENING_DIFFERS", ": slot, slot secret"),
        ({"secret": hash_bytes(b"drawn again").hex()}, "OPENING_DIFFERS", ": slot secret"),
        ({"load": "load2"}, "OPENING_DIFFERS", ": load"),
        ({"counts": (41, 0)}, "OPENING_DIFFERS", ": cells"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_a_lying_opening_is_named_with_what_it_lies_about(
    changes: dict[str, Any], code: str, what: str, history: History, home: AuditorHome
) -> None:
    """Another count, secret or load than what was charged and answered: a problem of that charge, and no proof."""
    audit = audited(home, history.exports(), lied(history, **changes))
    assert found(audit) == [(code, "census", CHARGED)]
    assert what in audit.findings.problems[0].text
    assert audit.noise == 2
    assert any("1 of 3" in text for text in audit.findings.not_checked)


def test_the_opening_of_a_table_proves_its_noise(home: AuditorHome) -> None:
    """The auditor draws the noise of all cells again; a count more or less, or two exchanged, is found."""
    history, question = honest(1), Question("mother_tongue", (Cell(("French",)), REST))
    asked = history.ask("submit forward", order={"question": question.to_wire()})
    history.charge(asked, question=question.text, counts=(42, 7))
    history.report_charge(asked)
    history.cosign()
    history.release(asked)
    history.receive(asked)
    audit = audited(home, history.exports(), history.openings(KEY.sealing_key))
    assert (found(audit), audit.noise) == ([], 2)
    for counts in ((42, 8), (7, 42)):
        audit = audited(home, history.exports(), lied(history, counts=counts))
        assert (found(audit), audit.noise) == ([("NOISE_WRONG", "census", CHARGED)], 1)


def test_an_answer_with_other_noise_is_found(history: History, home: AuditorHome) -> None:
    """A census node that adds noise of its own choosing: its opening is true, and its receipt does not follow from it."""
    asked = history.asked[1]
    history.receive(asked, answer_hash=commit_answer(bytes(32), bytes.fromhex(asked.hash), NoisyCounts((7,))))
    audit = audited(home, history.exports(), history.openings(KEY.sealing_key))
    assert found(audit) == [("NOISE_WRONG", "census", CHARGED)]
    assert audit.noise == 2


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda _: b"", "OPENING_UNREADABLE"),
        (lambda _: os.urandom(SEALED_OPENING_BYTES), "OPENING_UNREADABLE"),
        (lambda _: bytes(SEALED_OPENING_BYTES + 1), "FILE_TOO_LARGE"),
        (lambda name: KEY.sealing_key.seal(b"{}", opening_info(name)), "OPENING_UNREADABLE"),
        (lambda name: KEY.sealing_key.seal(b"[" * 1024, opening_info(name)), "OPENING_UNREADABLE"),
    ],
    ids=["empty", "random", "giant", "no opening", "nested"],
)
def test_garbage_is_no_opening(make: Callable[[str], bytes], code: str, history: History, home: AuditorHome) -> None:
    """Whatever stands there instead is a problem of that charge."""
    asked = history.asked[1]
    garbage = history.openings(KEY.sealing_key) | {name_of(asked): make(asked.hash)}
    audit = audited(home, history.exports(), garbage)
    assert found(audit) == [(code, "census", CHARGED)]
    assert audit.noise == 2


def test_a_load_that_no_noise_can_be_made_of_stops_nobody(home: AuditorHome) -> None:
    """A log may name its loads as it likes; an opening that agrees with such a charge is unreadable, and the audit goes on."""
    history = honest()
    history.write_census(logs.loaded("é", release=RELEASE))
    asked = history.ask("submit forward")
    history.charge(asked, load="é")
    history.cosign()
    audit = audited(home, history.exports(), history.openings(KEY.sealing_key))
    assert found(audit) == [("OPENING_UNREADABLE", "census", history.census.size - 1)]
    assert audit.noise == 1


def test_a_link_in_the_place_of_an_opening_is_a_problem(history: History, home: AuditorHome, tmp_path: Path) -> None:
    """On disk as in memory: what is no plain file is not followed."""
    openings = write({"openings": history.openings(KEY.sealing_key)}, tmp_path) / "openings"
    (openings / name_of(history.asked[1])).unlink()
    (openings / name_of(history.asked[1])).symlink_to(openings / name_of(history.asked[0]))
    audit = replayed(history.exports(), home, OpenedOnSite(FolderPart(openings), KEY))
    assert (found(audit), audit.noise) == ([("FILE_UNUSABLE", "census", CHARGED)], 2)


def test_what_is_sealed_to_another_key_proves_nothing(history: History, home: AuditorHome) -> None:
    """An agency that seals to a key of its own shows nothing to the oversight body, which says so of every answer."""
    other = UnsealingKey.generate(os.urandom)
    audit = audited(home, history.exports(), history.openings(other.sealing_key))
    assert [code for code, _, _ in found(audit)] == ["OPENING_UNREADABLE"] * 3
    assert audit.noise == 0


def test_the_opening_of_another_ticket_does_not_open_this_one(history: History, home: AuditorHome) -> None:
    """A true opening under another ticket's name is sealed for the wrong one."""
    openings = history.openings(KEY.sealing_key)
    openings[name_of(history.asked[1])] = openings[name_of(history.asked[0])]
    audit = audited(home, history.exports(), openings)
    assert found(audit) == [("OPENING_UNREADABLE", "census", CHARGED)]


def test_an_opening_of_what_was_never_charged_is_pending(history: History, home: AuditorHome) -> None:
    """It may be newer than the export; and so may be whatever else stands in that folder. None of it proves anything."""
    asked = history.order()
    opening = msgspec.structs.replace(opening_of(history.asked[0]), ticket=asked.hash)
    strangers = {
        name_of(asked): seal_opening(opening, KEY.sealing_key),
        history.asked[0].hash: b"no suffix",
        f"below/{name_of(history.asked[0])}": b"in a folder",
    }
    audit = audited(home, history.exports(), history.openings(KEY.sealing_key) | strangers)
    assert found(audit) == []
    assert audit.findings.pending["OPENING", "census"] == 3
    assert audit.noise == 3


def test_an_answer_without_a_receipt_is_not_proved(history: History, home: AuditorHome) -> None:
    """There is nothing to compare the noise with, so that nothing is claimed of it; it is no problem either."""
    history.asked[1].receipt, history.asked[1].state = b"", "expired"
    exports = history.exports()
    del exports["researcher"][f"receipts/{history.asked[0].query}.json"]
    audit = audited(home, exports, history.openings(KEY.sealing_key))
    assert audit.noise == 1
    assert not {code for code, _, _ in found(audit)} & {"NOISE_WRONG", "OPENING_DIFFERS", "OPENING_UNREADABLE"}
    assert any("2 of 3" in text for text in audit.findings.not_checked)


def test_without_an_opening_the_noise_of_an_answer_is_not_proved(history: History, home: AuditorHome) -> None:
    """Openings are kept for a time only."""
    openings = history.openings(KEY.sealing_key)
    del openings[name_of(history.asked[2])]
    audit = audited(home, history.exports(), openings)
    assert found(audit) == []
    assert audit.noise == 2


def test_the_command_reads_the_key_that_the_auditors_home_names(history: History, tmp_path: Path) -> None:
    """`--openings` with a key proves the noise; without one it is refused with a remedy, and nothing is replayed."""
    directory = write(history.exports(), tmp_path / "handed_in")
    openings = write({"openings": history.openings(KEY.sealing_key)}, tmp_path) / "openings"
    home = auditor(tmp_path / "auditor")
    words = ("audit", "replay", directory, "--home", home, "--openings", openings, "--json")
    refused = run_here(*words)
    assert (refused.error["code"], "oversight" in refused.error["hint"]) == ("INVALID_VALUE", True)
    (home / "keys").mkdir()
    (home / "keys" / "oversight.key").write_text(KEY.to_text() + "\n")
    (home / "keys" / "oversight.key").chmod(0o600)
    (home / "config.toml").write_text('role = "auditor"\n[keys]\noversight = "file:keys/oversight.key"\n')
    assert run_here(*words).result["noise_proved"] == 3
