"""The linkage keys of a home, and their change.

The keys are in one file, one line a key, oldest first; the log says which of them are in use. The file may hold keys that
nothing uses yet: a new key is in it, durably, before the first pseudonym is made with it. So what the log names must be the
beginning of the file, and only that is used. A key is taken out of the file only where a whole other chain takes its place
(`other_chain`).

With a new key the store in force becomes one of the same people under the pseudonyms of that key:

    1 the key is durably in the home's file   2 the new store is written whole   3 the log names it   4 the old one goes

Until 3 everything is as before, and a second attempt goes on with the key of the first. No source file is needed, and
the node may be serving: it takes the new store at the next question, while questions that it took before stay with the
old one. How a node's store is read and written is left to the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.crypto.id_forms import ONTARIO
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import InvalidRequestError
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder, StoreStateT
from broker_common.storage.source.rows import Progress, ascending_order
from broker_common.values import PSEUDONYM_BYTES, Randomness

_KEY_BYTES = 32
# The largest file that the other agency brings: hundreds of keys.
_MAX_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class NextKey:
    """Where the next linkage key comes from; with neither, the one that the home's file already holds and does not use."""

    # Make one, unless the file holds one that is not in use yet.
    new: bool = False
    # The other agency's key file, whole.
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class LinkageKeys:
    """The keys behind one reference of one home."""

    home: Home
    reference: str

    @property
    def place(self) -> str:
        """Where the keys are, for an operator: the path of their file, or the reference if it leads elsewhere."""
        kind, _, target = self.reference.partition(":")
        return str(self.home.path / target) if kind == "file" else self.reference

    @property
    def is_there(self) -> bool:
        """Whether the reference leads to anything; before the first load it need not."""
        kind, _, target = self.reference.partition(":")
        return kind != "file" or (self.home.path / target).exists()

    def chain(self, in_force: str, form: str = ONTARIO) -> LinkageChain:
        """The chain that the log names, in its form; before the first load, the whole file, for ids of `form`.

        Raises:
            InvalidRequestError: SECRET_MISSING, LINKAGE_KEY_MISSING.
        """
        held = self.home.read_key(self.reference, LinkageChain.parse_text)
        try:
            return held.beginning(in_force) if in_force else held.of_form(form)
        except ValueError as error:
            raise InvalidRequestError("LINKAGE_KEY_MISSING", reference=self.reference, chain=in_force) from error

    def chain_for_load(self, in_force: str, form: str) -> LinkageChain:
        """`chain`, for a load whose dictionary names this form of ids.

        Raises:
            InvalidRequestError: as of `chain`; LOAD_REFUSED, what is loaded already has ids of another form.
        """
        chain = self.chain(in_force, form)
        if chain.form != form:
            raise InvalidRequestError(
                "LOAD_REFUSED",
                problem=f"its dictionary has ids of the form {form}, and those of the load in force are of the form {chain.form}",
                remedy=f"Adopt a dictionary with id_form {chain.form}, or begin a deployment of its own for the other form.",
            )
        return chain

    def other_chain(
        self, former: Collection[str], source: NextKey, form: str = ONTARIO, *, other: str = "census"
    ) -> LinkageChain:
        """The whole chain, for ids of `form`, that is to take the place of the one in force without going on from it.

        It is that of the `other` agency. Nothing is written.

        Raises:
            InvalidRequestError: SECRET_MISSING; RELINK_REFUSED, it is among the `former` ones, which have been in force.
        """
        held = self.home.read_key(self.reference, LinkageChain.parse_text)
        wanted = (held if source.file is None else _read(source.file)).of_form(form)
        if wanted.chain_id in former:
            refuse_relink(
                f"chain {wanted.chain_id} is in force here, or was before, and no chain comes back",
                f"Take the {other} agency's newest key file. If this is it, let that agency make a new key ('tripartite {other} relink "
                "--new-key'), then take its file.",
            )
        return wanted

    def begin_with(self, source: NextKey, randomness: Randomness) -> None:
        """Take the chain that the first load is to be made with; nothing is loaded yet.

        Raises:
            InvalidRequestError: RELINK_REFUSED, INVALID_VALUE; the file is as it was.
        """
        if source.file is not None:
            self.begin(_read(source.file))
        elif not source.new:
            refuse_relink("there is no new key", "Make one with --new-key, or take the other agency's with --key-file.")
        elif self.is_there:
            refuse_relink(
                f"{self.place} holds a key already, and nothing is loaded under it",
                "Bring the other agency that file, or take its key with --key-file.",
            )
        else:
            self.begin(new_chain(randomness))

    def begin(self, chain: LinkageChain) -> None:
        """Durably make the home's file hold this chain, whether there is a file or not: nothing was made with another.

        Raises:
            InvalidRequestError: INVALID_VALUE, the reference leads to no file.
        """
        self.home.replace_key(self.reference, f"{chain.to_text()}\n")

    def hold(self, chain: LinkageChain) -> None:
        """Durably make the home's file hold this chain.

        Raises:
            InvalidRequestError: INVALID_VALUE, the reference leads to no file.
        """
        if self.home.read_key(self.reference, LinkageChain.parse_text).keys != chain.keys:
            self.begin(chain)

    def next_chain(self, in_force: str, source: NextKey, randomness: Randomness) -> LinkageChain:
        """The chain that is to follow the one in force; the home's file holds it, durably.

        Raises:
            InvalidRequestError: SECRET_MISSING, LINKAGE_KEY_MISSING, RELINK_REFUSED, INVALID_VALUE; the file is as it was.
        """
        chain = self.chain(in_force)
        held = self.home.read_key(self.reference, LinkageChain.parse_text).of_form(chain.form)
        if source.file is not None:
            wanted = _continued(chain, _read(source.file).of_form(chain.form))
            if wanted.keys[: len(held.keys)] != held.keys:
                # Dropping it silently could drop what the other agency has taken already.
                refuse_relink(
                    "the key file here holds another key, which is not in use yet",
                    "If the other agency does not use that key either, remove the last line of the file, then try again.",
                )
        elif held != chain:
            wanted = held
        elif source.new:
            wanted = chain.with_key(LinkageKey(randomness(_KEY_BYTES)))
        else:
            refuse_relink("there is no new key", "Make one with --new-key, or take the other agency's with --key-file.")
        # CRASH: a key that the log does not name is not used; the next attempt finds it and goes on with it.
        self.hold(wanted)
        return wanted


def _continued(chain: LinkageChain, given: LinkageChain) -> LinkageChain:
    """`given`, if it begins with the chain in force here and adds something to it.

    SECURITY: a key that is added to another chain leads to names that the other agency has for nobody, now and ever after.
    """
    shared = min(len(chain.keys), len(given.keys))
    if given.keys[:shared] != chain.keys[:shared]:
        refuse_relink(
            f"the file given holds chain {given.chain_id}, which does not go on from chain {chain.chain_id}, in force here",
            "Take the other agency's key file as it is, with all its lines. If its chain has begun or gone on with other keys, see "
            "'When the two chains differ' in docs/keys.md.",
        )
    if len(given.keys) == len(chain.keys):
        refuse_relink(
            f"chain {chain.chain_id} is in force here already",
            "Take the other agency's newest key file if it has changed since; otherwise nothing is left to do.",
        )
    if len(given.keys) < len(chain.keys):
        refuse_relink(
            f"the file given ends with chain {given.chain_id}, and here chain {chain.chain_id}, which goes on from it, is in force",
            "Bring the other agency the key file of this one, and let it run 'relink --key-file FILE'.",
        )
    return given


def new_chain(randomness: Randomness) -> LinkageChain:
    """A chain of one fresh key."""
    return LinkageChain([LinkageKey(randomness(_KEY_BYTES))])


def chain_handed_over(file: Path) -> LinkageChain:
    """The other agency's chain, from its key file, for a home that is made.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    try:
        return _read(file)
    except InvalidRequestError as error:
        details = {name: error.details[name] for name in ("problem", "remedy")}
        raise InvalidRequestError("INVALID_VALUE", name="--linkage-file", **details) from error


def _read(path: Path) -> LinkageChain:
    try:
        with path.open("rb") as file:
            return LinkageChain.parse_text(file.read(_MAX_FILE_BYTES).decode("ascii"))
    except OSError as error:
        refuse_relink(f"{path} cannot be read ({error.strerror})", "Check the path and the permissions.")
    except ValueError:
        # SECURITY: whatever it holds instead may be a key all the same, and is not quoted.
        refuse_relink(
            f"{path} does not hold linkage keys, one a line",
            "Take the other agency's key file as it is, with all its lines.",
        )


def refuse_relink(problem: str, remedy: str) -> NoReturn:
    """The linkage key is not changed, for this reason."""
    raise InvalidRequestError("RELINK_REFUSED", problem=problem, remedy=remedy) from None


_ROWS_PER_STEP = 100_000

WriteStore: TypeAlias = Callable[[str, str, Sequence[LinkageKey]], int]
"""Called with the load in force, the new load and the keys to step through, in order; writes the new load's file whole
and gives the number of its people."""


@dataclass(frozen=True, slots=True)
class RelinkReport:
    """For the operator: the chains' names, the new load, and how many people it holds; empty where nothing is loaded yet."""

    linkage: str
    previous: str
    load: str
    people: int


@dataclass(frozen=True, slots=True, eq=False)
class Rekeyed:
    """New pseudonyms as ascending halves, and for each of them the row that it had before."""

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.intp]


def relink(
    journal: Journal[StoreStateT],
    loads: LoadFolder,
    keys: LinkageKeys,
    source: NextKey,
    *,
    write_store: WriteStore,
    forget_old_loads: Callable[[], None],
    randomness: Randomness,
) -> RelinkReport:
    """Put the next linkage key in force.

    Raises:
        RefusedError: LOADING.
        InvalidRequestError: SECRET_MISSING, LINKAGE_KEY_MISSING, RELINK_REFUSED.
        InternalError: INTEGRITY, the store in force is not the one that was loaded; STORE_FAILED.
    """
    with loads.loading(randomness) as load:
        # An attempt that was killed after its last step did not come to this.
        forget_old_loads()
        with journal.reading() as state:
            replaced, previous, commitments = state.load, state.linkage, dict(state.commitments)
        if not replaced:
            # No pseudonym was made yet: any chain may be the first.
            keys.begin_with(source, randomness)
            return RelinkReport("", "", "", 0)
        # 1
        chain = keys.next_chain(previous, source, randomness)
        # 2. SECURITY: a store that was changed must not come out of this with a new commitment.
        loads.verify(journal, replaced, commitments)
        added = chain.keys[len(chain.beginning(previous).keys) :]
        people = write_store(replaced, load, added)
        # 3
        loads.put_relinked_in_force(journal, load, replaced=replaced, linkage=chain.chain_id, randomness=randomness)
        # 4
        forget_old_loads()
    return RelinkReport(chain.chain_id, previous, load, people)


def rekey(
    high: npt.NDArray[np.uint64],
    low: npt.NDArray[np.uint64],
    keys: Sequence[LinkageKey],
    progress: Progress | None = None,
) -> Rekeyed:
    """Step pseudonyms, given as halves, through `keys`. Needs 40 bytes a person beside what is given."""
    new_high, new_low = np.empty(len(high), np.uint64), np.empty(len(low), np.uint64)
    for start in range(0, len(high), _ROWS_PER_STEP):
        rows = slice(start, start + _ROWS_PER_STEP)
        pseudonyms = np.stack([high[rows], low[rows]], axis=1).astype(">u8").view(np.uint8)
        for key in keys:
            pseudonyms = key.step(pseudonyms.reshape(-1, PSEUDONYM_BYTES))
        halves = pseudonyms.view(">u8")
        new_high[rows], new_low[rows] = halves[:, 0], halves[:, 1]
        if progress is not None:
            progress(min(start + _ROWS_PER_STEP, len(high)), len(high))
    order = ascending_order(new_high, new_low)
    return Rekeyed(new_high[order], new_low[order], order)
