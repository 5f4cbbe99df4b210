"""The parts of `answer_query`, in memory: a disk that outlives crashes, a record of steps, and a way to pull the plug."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.storage.journal import Checkpointed
from census_node.query.flow import Charge, Claim, Parts


class PowerCutError(Exception):
    """The end of everything that is not on the disk."""


@dataclass
class Disk:
    """Durable state."""

    # Kept samples; log entries with their times; sealed answers by ticket.
    files: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, str, int]] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    # How much of the log the witness outside has a checkpoint of.
    witnessed: int = 0

    def index_of(self, what: str, ticket: str) -> int | None:
        """Where an entry about a ticket stands."""
        return next((index for index, (kind, name, _) in enumerate(self.log) if (kind, name) == (what, ticket)), None)


@dataclass
class Node:
    """One process at a disk, until the power is cut: every part that a query needs."""

    disk: Disk
    # The step after which the power goes; "" for none.
    cut_after: str = ""
    # Failures by step.
    failing: dict[str, BrokerError] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    # Size of the log that the agencies are shown; tickets whose answers are out.
    shown: int = 0
    out: list[str] = field(default_factory=list)
    # Size of the log that each agency has cosigned; tickets whose price is held.
    sizes: dict[str, int] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._news = asyncio.get_running_loop().create_future()

    @property
    def parts(self) -> Parts[Sent, str]:
        """Everything that there is."""
        return Parts(samples=self, ledger=self, answers=self, publication=self)

    def step(self, name: str) -> None:
        """Something has been done."""
        self.steps.append(name)
        if name == self.cut_after:
            raise PowerCutError

    def fail(self, name: str) -> None:
        """Unless it cannot be done."""
        if name in self.failing:
            raise self.failing[name]

    # --- samples and ledger

    def keep(self, attempt: Sent) -> str:
        self.fail("keep")
        file = f"{attempt.ticket}.{len(self.disk.files)}"
        self.disk.files[file] = attempt.ticket
        self.step("keep")
        return file

    def forget(self, kept: str) -> None:
        del self.disk.files[kept]
        self.step("forget")

    def charge_of(self, claim: Claim) -> Charge | None:
        index = self.disk.index_of("charged", claim.ticket_hash)
        if index is None:
            return None
        if self.disk.claims[claim.ticket_hash] != claim:
            raise InvalidRequestError("TICKET_REUSED")
        return Charge(claim.agency, claim.ticket_hash, index)

    def charge(self, attempt: Sent, kept: str, *, at_ms: int) -> Charge:
        assert kept in self.disk.files, "charged before its sample is kept"
        self.fail("charge")
        claim = attempt.claim
        self.disk.log.append(("charged", claim.ticket_hash, at_ms))
        self.disk.claims[claim.ticket_hash] = claim
        self.step("charge")
        return Charge(claim.agency, claim.ticket_hash, len(self.disk.log) - 1)

    # --- answers

    def make(self, charge: Charge, proof: Checkpointed) -> None:
        assert proof.index == charge.index, "another charge is proved"
        assert self.disk.log[charge.index][:2] == ("charged", charge.ticket_hash), "counted before it is charged"
        self.fail("answer")
        if charge.ticket_hash not in self.disk.answers:
            self.disk.answers[charge.ticket_hash] = f"sealed {len(self.disk.answers)}"
            self.step("answer")

    def release(self, charge: Charge, cosigned: str, *, at_ms: int) -> None:
        assert cosigned, "released without a cosignature"
        assert charge.ticket_hash in self.disk.answers
        if self.disk.index_of("released", charge.ticket_hash) is None:
            self.disk.log.append(("released", charge.ticket_hash, at_ms))
            self.step("release")

    def let_out(self, charge: Charge) -> None:
        assert self.disk.index_of("released", charge.ticket_hash) is not None, "out before it is released"
        if charge.ticket_hash not in self.out:
            self.out.append(charge.ticket_hash)
            self.step("let out")

    # --- publication

    def prove(self, charge: Charge) -> Checkpointed:
        return Checkpointed(note=f"of {charge.index + 1}", index=charge.index, proof=[], entry=b"")

    def entrust(self, charge: Charge) -> None:
        assert charge.ticket_hash in self.disk.answers, "published before it is answered"
        self.fail("entrust")
        if self.disk.witnessed <= charge.index:
            self.disk.witnessed = len(self.disk.log)
            self.step("entrust")

    def show(self, charge: Charge) -> None:
        assert self.disk.witnessed > charge.index, "shown before the witness outside has it"
        if self.shown <= charge.index:
            self.shown = charge.index + 1
            self.step("show")

    def cosigned(self, charge: Charge) -> str | None:
        size = self.sizes.get(charge.agency, 0)
        return f"cosigned {size}" if size > charge.index else None

    async def next_cosignature(self, charge: Charge) -> None:
        while True:
            news = self._news
            if self.cosigned(charge) is not None:
                return
            await asyncio.wait([news])

    def cosign(self, agency: str) -> None:
        """An agency cosigns what is shown."""
        self.sizes[agency] = self.shown
        self.step("cosign")
        self.tell()

    def tell(self) -> None:
        """Waiters for a cosignature look again."""
        self._news.set_result(None)
        self._news = asyncio.get_running_loop().create_future()


@dataclass
class Sent:
    """One attempt to have a ticket answered."""

    node: Node
    ticket: str
    agency: str = "a"
    sample: bytes = b"sample"
    # When its refusals left.
    signed_at: list[int] = field(default_factory=list)

    @property
    def claim(self) -> Claim:
        return Claim(self.agency, self.ticket, self.sample)

    def verify_claim(self) -> Claim:
        self.node.fail("verify claim")
        return self.claim

    def verify_sample(self) -> None:
        self.node.fail("verify sample")
        self.node.held.append(self.ticket)
        self.node.step("verify")

    def signed(self, refusal: BrokerError, left_ms: int) -> BrokerError:
        self.signed_at.append(left_ms)
        return refusal

    def let_go(self) -> None:
        if self.ticket in self.node.held:
            self.node.held.remove(self.ticket)


@dataclass
class Asked:
    """The asker, and what they were told, when."""

    now: Callable[[], int]
    told: list[tuple[str, int]] = field(default_factory=list)

    def charged(self, proof: Checkpointed) -> None:
        del proof
        self.told.append(("charged", self.now()))

    def released(self) -> None:
        self.told.append(("released", self.now()))
