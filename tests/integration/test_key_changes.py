"""`tripartite keys rotate` on whole homes: the next key serves, the ones before end, and nothing is left half done."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from fakes.clock import FakeClock
from fakes.deployment import Outcome, run_here
from fakes.homes import moved_copy
from integration.loopback import running

from broker_common.crypto.cards import PURPOSES, SAMPLE, SAMPLING, TLS, PublicKey, VerifiedCard
from broker_common.crypto.certificates import PeerCertificate, Role, credentials_of
from broker_common.crypto.sealing import SealingKey, UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.parties import keyring
from broker_common.parties.keyring import Keyring
from broker_common.rpc.signed_documents import adoption_from_wire, adoption_to_wire
from broker_common.storage.clock import system_clock
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Adopted
from census_node.assembly import CensusHome
from deploy.local import Plan, lay_out
from health_node.assembly import HealthHome
from researcher_node.assembly import ResearcherHome

AnyHome: TypeAlias = CensusHome | HealthHome | ResearcherHome
HOMES: dict[Role, type[AnyHome]] = {"census": CensusHome, "health": HealthHome, "researcher": ResearcherHome}
EVERY_KEY = [(role, purpose) for role in HOMES for purpose in PURPOSES[role]]
# A sampling key is a secret of one party that signs and opens nothing: open questions are still drawn with the ones before.
# When the keys of log and card end is for the log's own time to say.
ENDING = [(role, purpose) for role, purpose in EVERY_KEY if purpose not in {SAMPLING, "log", "identity"}]
DAY_MS = 86_400_000
PLAN = Plan(population=10, seed=1, accounting="strict", max_belief="0.75", release_tick_ms=0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four homes for a few people, without waiting."""
    folder = tmp_path_factory.mktemp("key-changes") / "deployment"
    lay_out(folder, PLAN, lambda _: lambda _done, _total: None)
    return folder


@pytest.fixture
def deployment(made: Path, tmp_path: Path) -> Path:
    """A copy for one test, with addresses of its own."""
    return moved_copy(made, tmp_path / "deployment")


def rotate(home: Path, purpose: str, *words: str) -> Outcome:
    """The command, with --json."""
    return run_here("keys", "rotate", "--home", home, "--json", purpose, *words)


def opened(deployment: Path, role: Role) -> AnyHome:
    """A home, as a command finds it."""
    return HOMES[role](deployment / role)


def newest(card: VerifiedCard, purpose: str) -> PublicKey:
    """The key that was listed last."""
    return card.listed(purpose)[-1][1]


def same(*publics: PublicKey) -> bool:
    """Whether these are one key."""
    return len({public.raw if isinstance(public, SealingKey) else public for public in publics}) == 1


def has_private(keyring: Keyring, purpose: str, public: PublicKey) -> bool:
    """Whether the private half of a key is in the home's files."""
    content = keyring._home.read(keyring._references[purpose])
    if isinstance(public, PeerCertificate):
        try:
            return bool(credentials_of(public, content).private_key)
        except ValueError:
            return False
    if isinstance(public, SealingKey):
        keys = [UnsealingKey.parse_text(line) for line in content.decode().splitlines()]
        return public.raw in [key.sealing_key.raw for key in keys]
    assert isinstance(public, VerifyKey)
    signing = [SigningKey.parse_text(line, Purpose(purpose)) for line in content.decode().splitlines()]
    return public in [key.verify_key for key in signing]


def adopted(home: CensusHome) -> Adopted:
    """The adoption that is in force."""
    event = home.read(lambda state: state.adopted)
    assert event is not None
    return event


def verify_policy_in_force(home: CensusHome) -> None:
    """Return if a reader of the agency's present card accepts the policy in force."""
    event, now_ms = adopted(home), system_clock()
    (key,) = [key for key in home.own_card().verify_keys(Purpose.POLICY, now_ms) if key.key_id == event.key_id]
    key.verify_text(event.document.encode(), event.signature)


# --- a certificate that ends -------------------------------------------------------------------------------------------


def with_certificate_for(deployment: Path, role: Role, days: int, monkeypatch: pytest.MonkeyPatch) -> PeerCertificate:
    """Give a home a certificate that is good for so many days; 0: that has just ended."""
    with monkeypatch.context() as patched:
        patched.setattr(keyring, "CERTIFICATE_DAYS", days)
        assert rotate(deployment / role, TLS, "--in", "0s", "--honour", "0s").code == 0
    certificate = newest(opened(deployment, role).own_card(), TLS)
    assert isinstance(certificate, PeerCertificate)
    return certificate


@pytest.mark.parametrize("role", HOMES)
@pytest.mark.parametrize(("days", "usual"), [(60, True), (15, True), (5, False), (1, False)])
def test_a_new_certificate_is_used_before_the_one_in_use_ends(
    deployment: Path, role: Role, days: int, usual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewed a few days before its end, the usual wait would leave days in which nobody can connect."""
    before = with_certificate_for(deployment, role, days, monkeypatch)
    now_ms = system_clock()
    assert rotate(deployment / role, TLS).code == 0
    old, new = opened(deployment, role).own_card().listed(TLS)[-2:]
    assert same(old[1], before)
    assert isinstance(new[1], PeerCertificate)
    assert new[0].from_ms < before.expiry_ms < new[1].expiry_ms - 300 * DAY_MS
    assert (new[0].from_ms >= now_ms + 7 * DAY_MS) == usual
    # And there is time for peers to hear of it.
    assert new[0].from_ms > now_ms + days * DAY_MS // 3 or usual


def test_a_certificate_that_has_ended_is_replaced_at_once(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can be told over a connection any more: the operator is told to hand over the card."""
    before = with_certificate_for(deployment, "census", 0, monkeypatch)
    assert before.expiry_ms <= system_clock()
    outcome = rotate(deployment / "census", TLS)
    assert "has ended" in outcome.stderr
    assert "hand the card to each of them" in outcome.stderr
    card = opened(deployment, "census").own_card()
    assert same(card.in_use(TLS, system_clock()), newest(card, TLS))
    assert not same(newest(card, TLS), before)


@pytest.mark.parametrize("days", [5, 0])
def test_a_wait_beyond_the_certificate_s_end_is_refused(
    deployment: Path, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the operator asks for it; nothing is changed."""
    with_certificate_for(deployment, "health", days, monkeypatch)
    before = opened(deployment, "health").own_card()
    error = rotate(deployment / "health", TLS, "--in", "6d").error
    assert error["code"] == "INVALID_VALUE"
    assert "later than the end of the certificate in use" in error["text"]
    assert opened(deployment, "health").own_card().fingerprint == before.fingerprint


# --- in a hurry --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "purpose"), EVERY_KEY)
def test_key_in_an_emergency_takes_the_place_of_one_that_was_announced(
    deployment: Path, role: Role, purpose: str
) -> None:
    """Announced for next week, then stolen: a third one is used from now on, and neither of the others is good."""
    home = deployment / role
    before = opened(deployment, role).own_card()
    assert rotate(home, purpose, "--in", "7d").code == 0
    announced = opened(deployment, role).own_card()
    assert same(announced.in_use(purpose, system_clock()), newest(before, purpose))
    outcome = rotate(home, purpose, "--in", "0s", "--honour", "0s")
    assert outcome.result["serial"] == announced.card.serial + 1 == 3
    after, now_ms = opened(deployment, role).own_card(), system_clock()
    key = newest(after, purpose)
    assert same(after.in_use(purpose, now_ms), *after.honoured(purpose, now_ms), key)
    assert not same(key, newest(before, purpose))
    assert not same(key, newest(announced, purpose))
    if purpose != SAMPLING:
        held = [
            has_private(opened(deployment, role).keyring, purpose, newest(card, purpose))
            for card in (before, announced, after)
        ]
        assert held == [False, False, True]
    # And it can be replaced in its turn.
    assert rotate(home, purpose).result["serial"] == 4


@pytest.mark.parametrize(
    ("role", "purpose"), [("health", "manifest"), ("census", SAMPLE), ("census", "answer"), ("researcher", TLS)]
)
async def test_key_that_is_lost_is_replaced_at_once(deployment: Path, role: Role, purpose: str) -> None:
    """Waiting for the usual time, the home would go on without any key; the operator hears why it is not waited for."""
    home = opened(deployment, role)
    home.home.key_file(home.keyring._references[purpose]).unlink()
    outcome = rotate(deployment / role, purpose)
    assert outcome.code == 0
    assert "is missing" in outcome.stderr
    assert home.keyring.has(home.own_card(), purpose, system_clock())
    async with running(opened(deployment, role).serve):
        pass
    # One that is there has its time, and nothing is said.
    following = rotate(deployment / role, purpose)
    assert following.stderr == ""
    assert same(home.own_card().in_use(purpose, system_clock()), home.own_card().listed(purpose)[-2][1])


def test_disk_that_is_full_is_told_with_its_home(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command has many disks to choose from; and it gave no answer that could have been kept back."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("broker_common.storage.home.replace_file", full)
    error = rotate(deployment / "health", "manifest").error
    assert error["code"] == "STORE_FAILED"
    assert str(deployment / "health") in error["hint"]


@pytest.mark.parametrize("purpose", ["manifest", TLS])
async def test_file_with_another_key_is_called_what_it_is(deployment: Path, purpose: str) -> None:
    """It holds a key of the kind expected, and still not the one that is needed."""
    home = HealthHome(deployment / "health")
    home.home.key_file(home.keyring._references[purpose]).unlink()
    assert rotate(deployment / "health", purpose, "--in", "7d").code == 0
    with pytest.raises(InvalidRequestError, match="none of the keys there is the one that is needed"):
        async with running(HealthHome(deployment / "health").serve):
            pass


def test_more_keys_than_a_card_lists_are_refused_before_one_is_made(deployment: Path) -> None:
    """The operator is told when there is room again, and no key is left that no card names."""
    home = deployment / "health"
    for _ in range(7):
        assert rotate(home, "manifest").code == 0
    file = opened(deployment, "health").home.key_file("file:keys/manifest.key")
    before, card = file.read_bytes(), opened(deployment, "health").own_card()
    error = rotate(home, "manifest", "--in", "30d").error
    assert error["code"] == "INVALID_VALUE"
    assert "The first of them ends at 2" in error["hint"]
    assert (file.read_bytes(), opened(deployment, "health").own_card().signed) == (before, card.signed)
    # A key that was only announced gives way, so there is room for one that is needed at once.
    assert rotate(home, "manifest", "--in", "0s").code == 0


# --- what a disk still holds -------------------------------------------------------------------------------------------


def verify_nowhere(folder: Path, *secrets: bytes) -> None:
    """Return if no file under a folder holds any of these."""
    for file in folder.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert not any(secret in content for secret in secrets), file


@pytest.mark.parametrize(("role", "purpose"), ENDING)
async def test_private_keys_that_have_ended_are_gone_after_the_next_start(
    deployment: Path, tmp_path: Path, role: Role, purpose: str
) -> None:
    """Honoured for a day more, and then of no use to anybody who copies the disk."""
    home = deployment / role
    before = opened(deployment, role)
    content = before.home.read(before.keyring._references[purpose])
    # The secret without its label and its line ends.
    secrets = (
        [line for line in content.splitlines() if b"-----" not in line] if purpose == TLS else content.split()[-1:]
    )
    old = newest(before.own_card(), purpose)
    assert rotate(home, purpose, "--in", "0s", "--honour", "1d").code == 0
    assert has_private(before.keyring, purpose, old)
    for days, is_there in ((0, True), (2, False)):
        later = HOMES[role](deployment / role, FakeClock(system_clock() + days * DAY_MS))
        async with running(later.serve):
            pass
        copied = tmp_path / f"copy after {days} days"
        shutil.copytree(home, copied)
        found = HOMES[role](copied)
        assert has_private(found.keyring, purpose, old) == is_there
        assert has_private(found.keyring, purpose, newest(found.own_card(), purpose))
    verify_nowhere(copied, *secrets)


@pytest.mark.parametrize("role", ["census", "health"])
async def test_clock_that_is_ahead_at_one_start_does_not_end_the_log(deployment: Path, role: Role) -> None:
    """Nothing was logged at that start: set right, the clock says that the key before the last is still good."""
    home = deployment / role
    old = newest(opened(deployment, role).own_card(), "log")
    assert rotate(home, "log", "--honour", "1d").code == 0
    ahead = HOMES[role](deployment / role, FakeClock(system_clock() + 2 * DAY_MS))
    async with running(ahead.serve):
        pass
    for _ in range(2):
        async with running(opened(deployment, role).serve):
            pass
    assert has_private(opened(deployment, role).keyring, "log", old)


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_new_identity_key_signs_the_dictionary_again(deployment: Path, role: Role) -> None:
    """Or researchers would refuse the published dictionary as soon as the key before has ended."""
    assert rotate(deployment / role, "identity", "--in", "0s", "--honour", "0s").code == 0
    home = opened(deployment, role)
    assert not isinstance(home, ResearcherHome)
    with home.journal() as journal, journal.reading() as state:
        adoption, size = home.dictionaries.published(state), state.size
    keys = home.own_card().verify_keys(Purpose.IDENTITY, system_clock())
    assert adoption_from_wire(adoption_to_wire(adoption), keys).document == adoption.document
    # A second time nothing is left to do.
    home.after_rotation("identity")
    with home.journal() as journal, journal.reading() as state:
        assert state.size == size


@pytest.mark.parametrize("role", HOMES)
async def test_clock_that_is_ahead_at_one_start_does_not_end_the_card(deployment: Path, role: Role) -> None:
    """An identity key that is still on the card signs the next one, too; without it no key could be replaced any more."""
    home = deployment / role
    assert rotate(home, "identity", "--honour", "1d").code == 0
    ahead = HOMES[role](deployment / role, FakeClock(system_clock() + 2 * DAY_MS))
    async with running(ahead.serve):
        pass
    assert rotate(home, TLS).result["serial"] == 3


@pytest.mark.parametrize("role", HOMES)
def test_key_file_without_a_final_newline_takes_another_key(deployment: Path, role: Role) -> None:
    """As an editor leaves it: every key stays a line of its own."""
    home = opened(deployment, role)
    for purpose in PURPOSES[role]:
        file = home.home.key_file(home.keyring._references[purpose])
        file.write_text(file.read_text().rstrip("\n"))
        assert rotate(deployment / role, purpose, "--in", "0s").code == 0
        card = opened(deployment, role).own_card()
        if purpose == SAMPLING:
            assert all(home.keyring.sampling(str(public)) for _, public in card.listed(SAMPLING))
        else:
            honoured = card.honoured(purpose, system_clock())
            assert all(has_private(home.keyring, purpose, public) for public in honoured)


def test_key_file_of_something_else_is_the_operators_mistake(deployment: Path) -> None:
    """It is named, and left as it is."""
    home = opened(deployment, "health")
    file = home.home.key_file(home.keyring._references[SAMPLING])
    file.write_bytes(b"cl\xc3\xa9")
    assert rotate(deployment / "health", SAMPLING).error["code"] == "SECRET_MISSING"
    assert file.read_bytes() == b"cl\xc3\xa9"


async def test_keys_that_may_not_be_changed_hinder_no_start(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a read-only mount an ended key stays, and the operator is told."""
    assert rotate(deployment / "census", "answer", "--in", "0s", "--honour", "1d").code == 0

    def read_only(self: Home, reference: str, text: str) -> None:
        del self, reference, text
        raise InternalError("STORE_FAILED")

    monkeypatch.setattr(Home, "replace_key", read_only)
    later = CensusHome(deployment / "census", FakeClock(system_clock() + 2 * DAY_MS))
    async with running(later.serve):
        pass
    assert "cannot be removed" in "".join(capsys.readouterr())


@pytest.mark.parametrize("role", ["census", "health"])
async def test_log_key_that_has_ended_in_the_log_is_gone_after_the_next_start(deployment: Path, role: Role) -> None:
    """Once an entry stands after its end, nobody needs it any more."""
    home = deployment / role
    old = newest(opened(deployment, role).own_card(), "log")
    assert rotate(home, "log", "--honour", "0s").code == 0
    # An event of another key, so that something is logged.
    assert rotate(home, "identity").code == 0
    async with running(opened(deployment, role).serve):
        pass
    assert not has_private(opened(deployment, role).keyring, "log", old)


@pytest.mark.parametrize("role", HOMES)
def test_file_that_holds_none_of_the_homes_keys_is_left_alone(deployment: Path, tmp_path: Path, role: Role) -> None:
    """Another deployment's keys, put there by mistake: they may be the only copy of what they are."""
    lay_out(tmp_path / "other", PLAN, lambda _: lambda _done, _total: None)
    card = opened(deployment, role).own_card()
    shutil.rmtree(deployment / role / "keys")
    shutil.copytree(tmp_path / "other" / role / "keys", deployment / role / "keys")
    before = {file: file.read_bytes() for file in (deployment / role / "keys").iterdir()}
    HOMES[role](deployment / role).keyring.forget_ended(card, 2**50)
    for purpose in PURPOSES[role]:
        HOMES[role](deployment / role).keyring.forget_unlisted(card, purpose)
    assert {file: file.read_bytes() for file in (deployment / role / "keys").iterdir()} == before


async def test_disk_that_is_copied_opens_no_sample_of_before(deployment: Path, tmp_path: Path) -> None:
    """Bytes sealed to an ended key of the census node are as good as random, even with every file that is left."""
    home = deployment / "census"
    sealing = CensusHome(home).own_card().sealing_key(system_clock())
    sealed = sealing.seal(b"a sample's key", b"a ticket")
    assert rotate(home, SAMPLE, "--in", "0s", "--honour", "1d").code == 0
    opens: list[bool] = []
    for days in (0, 2):
        later = CensusHome(home, FakeClock(system_clock() + days * DAY_MS))
        async with running(later.serve):
            pass
        copied = tmp_path / f"copy after {days} days"
        shutil.copytree(home, copied)
        lines = (line for file in copied.rglob("*") if file.is_file() for line in file.read_bytes().splitlines())
        opens.append(any(can_open(line, sealed) for line in lines))
    assert opens == [True, False]


def can_open(line: bytes, sealed: bytes) -> bool:
    """Whether a line of a file is a key that this was sealed to."""
    try:
        return UnsealingKey.parse_text(line.decode()).unseal(sealed, b"a ticket", subject="sample") == b"a sample's key"
    except (ValueError, InvalidRequestError):
        return False


async def test_keys_that_are_not_on_this_machine_hinder_no_start(deployment: Path) -> None:
    """Identity, policy and operator key may be elsewhere; what is here is used, and cleared of what has ended."""
    home = deployment / "census"
    assert rotate(home, "answer", "--in", "0s", "--honour", "0s").code == 0
    for name in ("identity", "policy", "operator"):
        (home / "keys" / f"{name}.key").rename(home / f"{name}.elsewhere")
    async with running(CensusHome(home).serve):
        pass
    assert not list((home / "keys").glob("identity*.key"))


# --- the policy key ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [["operator"], ["policy"], ["operator", "policy"]], ids="+".join)
def test_policy_in_force_is_signed_by_the_next_policy_key(deployment: Path, away: list[str]) -> None:
    """In the same command, and without the operator's key or the policy key before it, which may be elsewhere."""
    home = CensusHome(deployment / "census")
    before = adopted(home)
    for name in away:
        (deployment / "census" / "keys" / f"{name}.key").rename(deployment / f"{name}.elsewhere")
    assert rotate(deployment / "census", "policy", "--honour", "0s").code == 0
    after, key = adopted(home), newest(home.own_card(), "policy")
    assert isinstance(key, VerifyKey)
    assert (after.document, after.key_id, after.note) == (before.document, key.key_id, "")
    assert after.key_id != before.key_id
    verify_policy_in_force(home)
    if "operator" in away:
        assert not (deployment / "census" / "keys" / "operator.key").exists()


def test_policy_is_signed_again_by_the_next_command_if_the_first_one_died(
    deployment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new card is out and nobody takes the policy any more: proposed and adopted as it is, it is good again."""
    folder = deployment / "census"
    home = CensusHome(folder)
    before = adopted(home)

    def die(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(CensusHome, "after_rotation", die)
        assert rotate(folder, "policy", "--honour", "0s").code != 0
    assert home.own_card().card.serial == 2
    assert adopted(home).key_id == before.key_id
    assert before.key_id not in [key.key_id for key in home.own_card().verify_keys(Purpose.POLICY, system_clock())]
    proposal = run_here("census", "policy", "propose", "--home", folder, "--json").result
    assert (proposal["changes"], proposal["weaker"]) == ([], [])
    run_here("census", "policy", "adopt", "--home", folder, "--json", proposal["policy_hash"]).result  # noqa: B018 - it must succeed
    assert adopted(home).document == before.document
    verify_policy_in_force(home)
    # Once is enough.
    again = run_here("census", "policy", "propose", "--home", folder, "--json")
    assert again.error["code"] == "POLICY_IN_FORCE"
    # And the next rotation is like any other.
    assert rotate(folder, "policy").code == 0
    verify_policy_in_force(home)


@pytest.mark.parametrize("nth", [1, 2])
def test_policy_that_is_adopted_during_a_rotation_stays_in_force(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Somebody adopts another one right after this command has looked at the log: it is not undone."""
    folder = deployment / "census"
    home = CensusHome(folder)
    words = ("census", "policy", "propose", "--home", folder, "--json", "--open-quotes", "3")
    proposal = run_here(*words).result
    after_rotation, reading = CensusHome.after_rotation, Journal.reading
    looks: list[str] = []

    def adopt() -> None:
        looks.append("adopted")
        run_here("census", "policy", "adopt", "--home", folder, "--json", proposal["policy_hash"]).result  # noqa: B018 - it must succeed

    @contextlib.contextmanager
    def looking(self: Journal[CensusState]) -> Iterator[CensusState]:
        with reading(self) as state:
            yield state
        looks.append("looked")
        if looks.count("looked") == nth and "adopted" not in looks:
            adopt()

    def watched(self: CensusHome, purpose: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "reading", looking)
            after_rotation(self, purpose)
        if "adopted" not in looks:
            # It looks once only.
            adopt()

    monkeypatch.setattr(CensusHome, "after_rotation", watched)
    rotate(folder, "policy")
    assert home.read(lambda state: state.policy_hash) == proposal["policy_hash"]


def test_rotation_whose_last_step_is_refused_says_what_is_left(
    deployment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card is out; what the operator does next is said, and the error is not hidden."""

    def busy(*_: object) -> None:
        raise RefusedError("BUSY", retry_seconds=30)

    monkeypatch.setattr(CensusHome, "after_rotation", busy)
    outcome = rotate(deployment / "census", "policy")
    assert outcome.error["code"] == "BUSY"
    assert "policy propose" in outcome.stderr


@pytest.mark.parametrize("purpose", ["policy", "identity", SAMPLE, TLS])
def test_rotation_that_died_before_its_card_was_out_leaves_nothing(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, purpose: str
) -> None:
    """A key that was made and that no card names is not used, and is gone after the next change."""
    folder = deployment / "census"
    home = CensusHome(folder)
    reference = home.keyring._references[purpose]
    before = home.own_card().signed

    def die(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(CensusHome, "publish", die)
        assert rotate(folder, purpose).code != 0
    left = home.home.read(reference)
    assert home.own_card().signed == before
    assert rotate(folder, purpose, "--honour", "0s", "--in", "0s").code == 0
    after = home.home.read(reference)
    assert not [line for line in after.splitlines() if line in left.splitlines() and b"-----" not in line]
    assert has_private(home.keyring, purpose, newest(home.own_card(), purpose))
