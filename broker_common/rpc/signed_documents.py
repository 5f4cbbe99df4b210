"""Signed documents of agencies, on the wire: policies, and dictionaries.

A dictionary begins with the agency's signed word, then the document follows in parts. A peer that has it already is
told so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
from tripartite.v1 import dictionary_pb2, policy_pb2

from broker_common.crypto.signing import Purpose, VerifyKey, key_named
from broker_common.errors import InvalidRequestError
from broker_common.privacy.policy import Policy, parse_policy
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import Adoption, adoption_of, parse_dictionary_document
from broker_common.rpc.channel import MAX_MESSAGE_BYTES
from broker_common.tlog.entries import DictionaryAdopted
from broker_common.values import parse_base64

# Half a message leaves room for its other fields.
_PART_BYTES = MAX_MESSAGE_BYTES // 2


def adoption_to_wire(event: DictionaryAdopted) -> dictionary_pb2.SignedAdoption:
    """The agency's word, as its log has it."""
    adoption = Adoption(version=event.version, dictionary=event.dictionary, document=event.document)
    return dictionary_pb2.SignedAdoption(
        adoption=adoption.statement, signature=parse_base64(event.signature), key_id=event.key_id
    )


def adoption_from_wire(message: dictionary_pb2.SignedAdoption, keys: Sequence[VerifyKey]) -> Adoption:
    """An agency's statement about a dictionary, signed with one of its identity keys.

    Raises:
        InvalidRequestError: UNKNOWN_KEY, BAD_SIGNATURE, MALFORMED_MESSAGE.
    """
    key = key_named(keys, message.key_id, subject="dictionary")
    key.verify_signature(message.adoption, message.signature, purpose=Purpose.DICTIONARY)
    try:
        adoption = msgspec.json.decode(message.adoption, type=Adoption)
    except ValueError as error:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the word about a dictionary") from error
    if adoption.statement != message.adoption:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the word about a dictionary")
    return adoption


def parts_of(document: bytes) -> Iterator[bytes]:
    """A document as messages carry it."""
    for start in range(0, len(document), _PART_BYTES):
        yield document[start : start + _PART_BYTES]


def adopted_dictionary(document: bytes, adoption: Adoption) -> Dictionary:
    """The dictionary of a document, if it is the one that its agency speaks of.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    if hashlib.sha256(document).hexdigest() != adoption.document:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="a dictionary that its agency does not speak of")
    try:
        dictionary = parse_dictionary_document(document)
    except ValueError as error:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem=f"a dictionary, {error}") from error
    if adoption_of(dictionary, document) != adoption:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="a dictionary that its agency says something else of")
    return dictionary


def policy_from_wire(signed: policy_pb2.SignedPolicy, keys: Sequence[VerifyKey]) -> Policy:
    """The policy, if one of these keys of its agency signed it.

    Raises:
        InvalidRequestError: UNKNOWN_KEY, BAD_SIGNATURE or INVALID_VALUE.
    """
    key_named(keys, signed.key_id, subject="policy").verify_signature(signed.document, signed.signature)
    return parse_policy(signed.document)
