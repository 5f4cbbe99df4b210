"""A model of two questions on their way through the census node, small enough that every state can be visited.

State on disk, in the memory of a process that may die, in the witness store, and outside the node. A step is what one thread
does between two instants at which the process may die, or another thread may run. The log is kept in letters: `S` slots at a
start, `c` a charge, `r` a release, `d` a delivery, each with its question, and `X` a shutdown.

Both questions are about x; the budget of a person pays for one answer. So the second charge leaves x out, unless a process
has forgotten the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

QUESTIONS = (0, 1)
Step: TypeAlias = "tuple[str, int | None]"


class Disk(NamedTuple):
    """Durable state at the census agency."""

    log: tuple[str, ...] = ("S",)
    # Questions whose sealed answers are stored, and how much of the log a health agency has cosigned.
    answered: frozenset[int] = frozenset()
    cosigned: int = 1
    # The charged ticket of each question. And the questions whose charges count x.
    charged: tuple[int, ...] = (0, 0)
    counting: frozenset[int] = frozenset()

    def place(self, entry: str) -> int:
        """Where an entry stands; -1 for one that is not there."""
        return self.log.index(entry) if entry in self.log else -1

    @property
    def is_shut(self) -> bool:
        return "X" in self.log


@dataclass(frozen=True)
class State:
    """Everything that matters of one instant."""

    disk: Disk = field(default_factory=Disk)
    is_up: bool = True
    # After an uncertain commit the process does nothing any more.
    is_broken: bool = False
    # In memory: the sample in a file that no charge names yet, of which the desk has one at a time; tickets whose slots serve,
    # and how much of the log is shown.
    kept: frozenset[int] = frozenset()
    tickets: frozenset[int] = frozenset(QUESTIONS)
    shown: int = 1
    # Outside the node: what the witness store has seen, an older copy of the disk, how many tickets each question has had, and
    # of every answer that has left its question, its ticket, and whether it counted x. The same answer may leave again.
    witnessed: int = 1
    backup: Disk | None = None
    made: tuple[int, ...] = (1, 1)
    left: frozenset[tuple[int, int, bool]] = frozenset()
    crashes: int = 0
    restored: bool = False


@dataclass(frozen=True)
class Limits:
    """How much happens beside the questions themselves."""

    crashes: int = 1
    backups: bool = False
    shutdown: bool = False


@dataclass(frozen=True)
class Rules:
    """The product's. Each may be broken, to see that something notices."""

    compares_with_witness: bool = True
    releases_when_cosigned: bool = True
    witness_before_showing: bool = True
    answers_after_charging: bool = True
    charges_while_open: bool = True
    charges_once: bool = True
    sees_other_charges: bool = True
    stops_when_uncertain: bool = True


def steps(state: State, limits: Limits, rules: Rules | None = None) -> Iterator[tuple[Step, State]]:
    """Everything that may happen next, with what it leads to."""
    rules = Rules() if rules is None else rules
    if limits.backups and state.backup is None and not state.restored:
        yield ("backup", None), replace(state, backup=state.disk)
    if not state.is_up:
        yield from _while_down(state, rules)
        return
    if state.crashes < limits.crashes:
        yield ("crash", None), _down(state)
    if state.is_broken:
        return
    yield from _of_others(state, limits)
    for question in QUESTIONS:
        for name, do in _OF_A_QUESTION.items():
            after = do(state, question, rules)
            if after is not None:
                yield (name, question), after
        if state.crashes < limits.crashes:
            yield from _uncertain(state, question, rules)


def _of_others(state: State, limits: Limits) -> Iterator[tuple[Step, State]]:
    """Steps of the health agency and of the operator."""
    if state.disk.cosigned < state.shown:
        yield ("cosign", None), _with(state, cosigned=state.shown)
    if limits.shutdown and not state.disk.is_shut:
        yield ("shutdown", None), _logged(state, "X")


def _with(state: State, **changes: Any) -> State:
    return replace(state, disk=state.disk._replace(**changes))


def _logged(state: State, entry: str) -> State:
    return _with(state, log=(*state.disk.log, entry))


def _changed(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place + 1 :])


def _down(state: State) -> State:
    return replace(
        state,
        is_up=False,
        is_broken=False,
        kept=frozenset(),
        tickets=frozenset(),
        shown=0,
        crashes=state.crashes + 1,
    )


def _while_down(state: State, rules: Rules) -> Iterator[tuple[Step, State]]:
    if state.backup is not None and not state.restored:
        yield ("restore", None), replace(state, disk=state.backup, restored=True)
    if state.witnessed > len(state.disk.log) and rules.compares_with_witness:
        yield ("start", None), state
        return
    charged = frozenset(question for question in QUESTIONS if f"c{question}" in state.disk.log)
    log = (*state.disk.log, "S")
    started = replace(state, is_up=True, disk=state.disk._replace(log=log, answered=charged), shown=len(log))
    yield ("start", None), replace(started, witnessed=max(state.witnessed, len(log)))


def _quote(state: State, question: int, rules: Rules) -> State | None:
    """A new ticket: its slot, of the newest start, has to be cosigned."""
    del rules
    slots = max(place for place, entry in enumerate(state.disk.log) if entry == "S")
    if question in state.tickets or f"c{question}" in state.disk.log or slots >= state.disk.cosigned:
        return None
    return replace(
        state, tickets=state.tickets | {question}, made=_changed(state.made, question, state.made[question] + 1)
    )


def _keep(state: State, question: int, rules: Rules) -> State | None:
    """The desk takes a sample: decided on, and in its file."""
    if state.kept:
        return None
    if f"c{question}" in state.disk.log:
        # Handed in again, whatever has become of its slot: its charge is found, and nothing is done.
        return state if rules.charges_once else replace(state, kept=frozenset({question}))
    # Any other is refused after the end.
    if question not in state.tickets or state.disk.is_shut:
        return None
    return replace(state, kept=frozenset({question}))


def _charge(state: State, question: int, rules: Rules) -> State | None:
    if question not in state.kept:
        return None
    state = replace(state, kept=frozenset())
    if state.disk.is_shut and rules.charges_while_open:
        return state
    charged = _changed(state.disk.charged, question, state.made[question])
    # x is active as long as no charge before has taken the budget.
    counts_x = not rules.sees_other_charges or all(entry[0] != "c" for entry in state.disk.log)
    counting = state.disk.counting | ({question} if counts_x else set())
    return _with(_logged(state, f"c{question}"), charged=charged, counting=counting)


def _uncertain(state: State, question: int, rules: Rules) -> Iterator[tuple[Step, State]]:
    """The commit of a charge fails: before it was done, or after."""
    charged = _charge(state, question, rules)
    if charged is None or charged.disk.log == state.disk.log:
        return
    is_broken = rules.stops_when_uncertain
    # The sample stays, whatever has become of the charge: the log will tell.
    yield ("charge that fails", question), replace(state, is_broken=is_broken)
    yield ("charge that seems to fail", question), replace(charged, kept=state.kept, is_broken=is_broken)


def _answer(state: State, question: int, rules: Rules) -> State | None:
    if f"c{question}" not in state.disk.log and rules.answers_after_charging:
        return None
    if question in state.disk.answered:
        return None
    return _with(state, answered=state.disk.answered | {question})


def _entrust(state: State, question: int, rules: Rules) -> State | None:
    """The witness store is given the log as it is, unless it has the charge."""
    del rules
    has_it = state.disk.place(f"c{question}") < state.witnessed
    return None if has_it else replace(state, witnessed=len(state.disk.log))


def _show(state: State, question: int, rules: Rules) -> State | None:
    """The health agencies are shown the log up to the charge."""
    size = state.disk.place(f"c{question}") + 1
    if size <= state.shown or (size > state.witnessed and rules.witness_before_showing):
        return None
    return replace(state, shown=size)


def _release(state: State, question: int, rules: Rules) -> State | None:
    if question not in state.disk.answered or f"r{question}" in state.disk.log:
        return None
    if rules.releases_when_cosigned and state.disk.place(f"c{question}") >= state.disk.cosigned:
        # Tried in vain.
        return state
    answer = question, state.disk.charged[question], question in state.disk.counting
    return replace(_logged(state, f"r{question}"), left=state.left | {answer})


def _deliver(state: State, question: int, rules: Rules) -> State | None:
    del rules
    if f"r{question}" not in state.disk.log or f"d{question}" in state.disk.log:
        return None
    return _logged(state, f"d{question}")


_OF_A_QUESTION: dict[str, Callable[[State, int, Rules], State | None]] = {
    "quote": _quote,
    "keep": _keep,
    "charge": _charge,
    "answer": _answer,
    "entrust": _entrust,
    "show": _show,
    "release": _release,
    "deliver": _deliver,
}


Found: TypeAlias = "dict[State, tuple[State, Step] | None]"
"""States with a shortest way to each: the state before and the step; None at the start."""


def explore(limits: Limits, rules: Rules | None = None, *, until: Callable[[State], bool] = lambda _: False) -> Found:
    """Every reachable state, or all up to the first one that `until` holds of."""
    found: Found = {State(): None}
    open_states = deque(found)
    while open_states:
        state = open_states.popleft()
        for step, after in steps(state, limits, rules):
            if after not in found:
                found[after] = state, step
                open_states.append(after)
                if until(after):
                    return found
    return found


def way_to(found: Found, state: State) -> list[Step]:
    """The steps that lead there."""
    way: list[Step] = []
    while (before := found[state]) is not None:
        state, step = before
        way.append(step)
    return way[::-1]


def problems(state: State) -> Iterator[str]:
    """Which of the ledger's invariants (DESIGN 5) a state breaks; the fifth is one of steps, see `test_interleavings`."""
    log = state.disk.log
    for question in QUESTIONS:
        charges, releases = log.count(f"c{question}"), log.count(f"r{question}")
        if releases and not 0 <= state.disk.place(f"c{question}") < min(log.index(f"r{question}"), state.disk.cosigned):
            yield "1: released and not charged, logged and cosigned before"
        if question in state.disk.answered and not charges:
            yield "1: counted and not charged"
        if charges > 1 or releases > 1:
            yield "4: one ticket, one charge, one answer"
        if "X" in log and state.disk.place(f"c{question}") > log.index("X"):
            yield "5: charged after the shutdown"
    if len(state.disk.counting) > 1:
        yield "3: a charge passes the cap"
    if len({(question, ticket) for question, ticket, _ in state.left}) < len(state.left):
        yield "4: one ticket, two answers"
    if sum(counts_x for _, _, counts_x in state.left) > 1:
        yield "2: more answers have counted x than x was charged for"
    if state.is_up and any(state.disk.charged[question] != ticket for question, ticket, _ in state.left):
        yield "6: an older copy serves, and has forgotten the charge of an answer that has left"
