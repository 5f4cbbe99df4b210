"""Linkage pseudonyms: what an id becomes before it enters any store of ours.

A pseudonym is HMAC-SHA256(linkage key, id in its one spelling), cut to 16 bytes: at 2^24 people two of them collide with
probability below 2^-80. Before the id of any form but Ontario's stand a domain and the form's name (`id_forms`). Changing the key goes on from the pseudonyms that there are: the next one is HMAC-SHA256(new key,
domain and pseudonym before), cut to 16 bytes, so that a person keeps one name through all stores and charges, known to
the census or not. The keys in their order are a chain; a card goes through all of them.

Both agencies hold the chain; it never reaches the researcher, nor the wire. A holder of all of it can turn pseudonyms
back into cards by trying all cards, so pseudonyms are no anonymisation (SECURITY.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes, hmac

from broker_common.crypto.id_forms import ID_FORMS, ONTARIO
from broker_common.crypto.secret import Secret, parse_secret, secret_text
from broker_common.values import PSEUDONYM_BYTES

_PURPOSE = "linkage"
# Ten digits never begin like these, nor one like another: no card can pass for a pseudonym, nor an id for one of another form.
_STEP_DOMAIN = b"tripartite/linkage-step/v1\0"
_FORM_DOMAIN = b"tripartite/linkage-form/v1\0"
_CHAIN_DOMAIN = b"tripartite/linkage-chain/v1\0"
_CHAIN_ID_CHARACTERS = 16


class LinkageKey(Secret):
    """One key of a chain. Used at load time and when the key changes; never on the query path."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, exact_bytes=32)
        self._keyed = hmac.HMAC(key, hashes.SHA256())
        self._stepping = self._keyed.copy()
        self._stepping.update(_STEP_DOMAIN)

    def pseudonym(self, one_id: str, form: str = ONTARIO) -> bytes:
        """The pseudonym of an id of a form (see `id_forms`) when this is the first key."""
        mac = self._of_form(form)
        mac.update(one_id.encode("ascii"))
        return mac.finalize()[:PSEUDONYM_BYTES]

    def next_pseudonym(self, pseudonym: bytes) -> bytes:
        """The pseudonym that follows one of the previous chain."""
        mac = self._stepping.copy()
        mac.update(pseudonym)
        return mac.finalize()[:PSEUDONYM_BYTES]

    def step(self, pseudonyms: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """`next_pseudonym` of each row of an (n, 16) array, in the same order."""
        return _each(self._stepping, np.ascontiguousarray(pseudonyms).view(f"V{PSEUDONYM_BYTES}").ravel().tolist())

    def pseudonyms(self, ids: npt.NDArray[np.bytes_], form: str = ONTARIO) -> npt.NDArray[np.uint8]:
        """`pseudonym` of each id of a form (see `parse_ids`), as (n, 16)."""
        return _each(self._of_form(form), ids.tolist())

    def _of_form(self, form: str) -> hmac.HMAC:
        context = self._keyed.copy()
        if form != ONTARIO:
            context.update(_FORM_DOMAIN + form.encode("ascii") + b"\0")
        return context


def _each(context: hmac.HMAC, records: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """The beginning of each record's MAC. `context` has taken in what is the same for all of them."""
    macs = bytearray()
    # Copies of one context: the key is taken in once, and half a microsecond is left for each person.
    copy = context.copy
    for record in records:
        mac = copy()
        mac.update(record)
        macs += mac.finalize()[:PSEUDONYM_BYTES]
    return np.frombuffer(macs, dtype=np.uint8).reshape(-1, PSEUDONYM_BYTES)


class LinkageChain:
    """One linkage key, or several in the order in which they came, all different, for ids of one form.

    `ValueError` for anything else.
    """

    def __init__(self, keys: Sequence[LinkageKey], form: str = ONTARIO) -> None:
        self.keys, self.form = tuple(keys), form
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise ValueError("a chain holds one linkage key or more, each of them once")
        if form not in ID_FORMS:
            raise ValueError("there is no such form of ids")
        self._first, self._later = self.keys[0], self.keys[1:]

    @property
    def chain_id(self) -> str:
        """A short public name of the whole chain and its form: tells chains apart, tells nothing about the keys."""
        ids = b"".join(bytes.fromhex(key.key_id) for key in self.keys)
        form = b"" if self.form == ONTARIO else _FORM_DOMAIN + self.form.encode("ascii")
        return hashlib.sha256(_CHAIN_DOMAIN + ids + form).hexdigest()[:_CHAIN_ID_CHARACTERS]

    def pseudonym(self, one_id: str) -> bytes:
        """The 16-byte pseudonym of an id in its one spelling (see `id_forms`)."""
        pseudonym = self._first.pseudonym(one_id, self.form)
        for key in self._later:
            pseudonym = key.next_pseudonym(pseudonym)
        return pseudonym

    def pseudonyms(self, ids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint8]:
        """`pseudonym` of each id (see `parse_ids`), as (n, 16), in the same order."""
        pseudonyms = self._first.pseudonyms(ids, self.form)
        for key in self._later:
            pseudonyms = key.step(pseudonyms)
        return pseudonyms

    def with_key(self, key: LinkageKey) -> LinkageChain:
        return LinkageChain((*self.keys, key), self.form)

    def of_form(self, form: str) -> LinkageChain:
        """The same keys for ids of another form; `ValueError` if there is no such form."""
        return LinkageChain(self.keys, form)

    def beginning(self, chain_id: str) -> LinkageChain:
        """The chain of this name, in its form, that this one goes on from, or is; `ValueError` when there is none."""
        for form in (self.form, *ID_FORMS):
            for length in range(1, len(self.keys) + 1):
                if (chain := LinkageChain(self.keys[:length], form)).chain_id == chain_id:
                    return chain
        raise ValueError("the chain does not begin with that one")

    def to_text(self) -> str:
        """SECURITY: the keys themselves, one line each, oldest first, for a key file readable by its owner alone.

        The form is not among them: the dictionary names it, and the name of the chain in force holds it.
        """
        return "\n".join(secret_text(_PURPOSE, key.expose()) for key in self.keys)

    @classmethod
    def parse_text(cls, text: str) -> LinkageChain:
        return cls([LinkageKey(parse_secret(line, _PURPOSE)) for line in text.strip().splitlines()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinkageChain) and (self.keys, self.form) == (other.keys, other.form)

    def __hash__(self) -> int:
        return hash((self.keys, self.form))

    def __repr__(self) -> str:
        return f"LinkageChain(<secret {self.chain_id}>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("LinkageChain is never serialised")
