"""The dictionaries that an agency has adopted: their documents in its home, named by their SHA-256; its log says what they are.

The newest adopted one is that of the next load; the one in force is the one that the load in force was read under. Adopted
dictionaries are kept: a charge is counted, and a sample drawn, under the dictionary of the load that it names.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.language import joined, phrase
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_changes import Change, changes
from broker_common.query.dictionary_document import (
    Adoption,
    adoption_of,
    dictionary_document,
    parse_dictionary_document,
)
from broker_common.storage.durable import make_folder, replace_file
from broker_common.storage.journal import Journal
from broker_common.storage.loads import StoreStateT
from broker_common.tlog.entries import DictionaryAdopted
from broker_common.tlog.replay import FORMAT_VERSION, StoreState

# The most characters about all changes in one error.
_MOST_TOLD_CHARACTERS = 400
# Pairs of dictionaries whose changes are kept in words.
_MOST_COMPARED = 100


class Dictionaries:
    """Those of one home. May be used from several threads at once."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "dictionaries"
        # Dictionaries by the name of their document.
        self._read: dict[str, Dictionary] = {}
        # Changes by the names of both documents. Each pair is compared once.
        self._changes: dict[tuple[str, str], str] = {}
        self._comparing = threading.Lock()

    def newest(self, state: StoreState) -> Dictionary:
        """The one that data is loaded under.

        Raises:
            RefusedError: NOTHING_ADOPTED.
            InternalError: INTEGRITY.
        """
        if state.newest_dictionary is None:
            raise RefusedError("NOTHING_ADOPTED", role=state.role)
        return self.named(state.newest_dictionary.document)

    def of_load(self, state: StoreState, load: str) -> Dictionary:
        """The one that a load's values were read under.

        SECURITY: under another dictionary a stored number may stand for another code: French would be counted as English.

        Raises:
            InternalError: INTEGRITY.
        """
        return self.adopted(state, state.dictionaries[load])

    def adopted(self, state: StoreState, dictionary: str) -> Dictionary:
        """The one of this meaning, by its hash, with the labels that were adopted last.

        Raises:
            InternalError: INTEGRITY.
        """
        adoption = state.adopted_dictionaries.get(dictionary)
        if adoption is None:
            raise InternalError("INTEGRITY", problem=f"the dictionary {dictionary} was never adopted")
        return self.named(adoption.document)

    def published(self, state: StoreState) -> DictionaryAdopted:
        """The adoption of what researchers may ask about: the dictionary in force, before the first load the newest one.

        Raises:
            RefusedError: NOTHING_ADOPTED.
        """
        adoption = state.adopted_dictionaries.get(state.dictionaries.get(state.load, ""), state.newest_dictionary)
        if adoption is None:
            raise RefusedError("NOTHING_ADOPTED", role=state.role)
        return adoption

    def unless_known(self, adoption: DictionaryAdopted, known: bytes) -> bytes:
        """The adopted document for researchers; nothing if it is the one that they know, by its SHA-256.

        Raises:
            InternalError: INTEGRITY.
        """
        return b"" if adoption.document == known.hex() else self.document(adoption.document)

    def changes(self, before: DictionaryAdopted | None, now: DictionaryAdopted) -> str:
        """The differences of the second of two adopted meanings, shortened to fit into an error.

        This is slow for long lists: never call it while the journal is held.
        """
        if before is None:
            return phrase("The agency does not know the one that it was written with.")
        pair = (before.document, now.document)
        with self._comparing:
            if pair not in self._changes:
                if len(self._changes) >= _MOST_COMPARED:
                    self._changes.clear()
                self._changes[pair] = _told(changes(self.named(before.document), self.named(now.document)))
            return self._changes[pair]

    def named(self, document: str) -> Dictionary:
        """The one of a document, by its SHA-256.

        Raises:
            InternalError: INTEGRITY.
        """
        found = self._read.get(document)
        if found is None:
            try:
                found = parse_dictionary_document(self.document(document))
            except ValueError as error:
                raise _unreadable(document, str(error)) from error
            self._read[document] = found
        return found

    def document(self, name: str) -> bytes:
        """The bytes whose SHA-256 this is.

        Raises:
            InternalError: INTEGRITY.
        """
        try:
            data = self.path(name).read_bytes()
        except OSError as error:
            raise _unreadable(name, error.strerror or "") from error
        if hashlib.sha256(data).hexdigest() != name:
            raise _unreadable(name, "it is another one")
        return data

    def keep(self, document: bytes) -> str:
        """Durably keep a document; gives its name.

        Raises:
            InternalError: STORE_FAILED.
        """
        name = hashlib.sha256(document).hexdigest()
        try:
            make_folder(self._folder)
            replace_file(self.path(name), document)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        return name

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def adopt_dictionary(
    journal: Journal[StoreStateT], dictionaries: Dictionaries, dictionary: Dictionary, identity: SigningKey
) -> DictionaryAdopted:
    """Put a dictionary in place for the next load, signed by the agency. The same again changes nothing.

    Raises:
        InvalidRequestError: DICTIONARY_OLD, the version was used before, or is lower than the newest one.
        InternalError: STORE_FAILED.
    """
    document = dictionary_document(dictionary)
    adoption = adoption_of(dictionary, document)
    dictionaries.keep(document)
    # CRASH: a document that the log does not name, which nobody reads.
    with journal.transaction() as transaction:
        newest = transaction.state.newest_dictionary
        if newest is not None and newest.document == adoption.document:
            return newest
        if not transaction.state.may_adopt(adoption.version, adoption.dictionary):
            assert newest is not None  # noqa: S101 - the first one may have any version
            raise InvalidRequestError("DICTIONARY_OLD", version=adoption.version, newest=newest.version)
        event = _signed(adoption, identity)
        transaction.append(event)
    return event


def sign_again(journal: Journal[StoreStateT], identity: SigningKey) -> None:
    """Have the dictionary that was adopted last signed by this key, if it is signed by another."""
    with journal.transaction() as transaction:
        newest = transaction.state.newest_dictionary
        if newest is not None and newest.key_id != identity.key_id:
            adoption = Adoption(version=newest.version, dictionary=newest.dictionary, document=newest.document)
            transaction.append(_signed(adoption, identity))


def _signed(adoption: Adoption, identity: SigningKey) -> DictionaryAdopted:
    return DictionaryAdopted(
        format=FORMAT_VERSION,
        version=adoption.version,
        dictionary=adoption.dictionary,
        document=adoption.document,
        signature=identity.sign_text(adoption.statement, purpose=Purpose.DICTIONARY),
        key_id=identity.key_id,
    )


def _told(found: Sequence[Change]) -> str:
    told: list[str] = []
    for sentence in (change.sentence for change in found if change.needs_load):
        if sum(map(len, told)) + len(sentence) > _MOST_TOLD_CHARACTERS:
            return joined(" ", [*told, "..."])
        told.append(sentence)
    return joined(" ", told)


def _unreadable(name: str, problem: str) -> InternalError:
    return InternalError("INTEGRITY", problem=f"dictionaries/{name}.json cannot be read ({problem})")
