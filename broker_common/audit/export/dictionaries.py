"""The dictionaries that an agency has adopted, as they are handed in: every one that its log names, and no other.

A document is the one whose hash the log has; that its version and meaning are those that the agency signed is checked here, its
signature with the log.
"""

from __future__ import annotations

import re

from broker_common.audit.export.reading import Part, UnreadableError
from broker_common.audit.findings import Findings
from broker_common.crypto.commitments import hash_bytes
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import (
    MAX_DOCUMENT_BYTES,
    Adoption,
    adoption_of,
    parse_dictionary_document,
)
from broker_common.tlog.replay import Adoptions
from broker_common.values import Linkage

_NAME = re.compile(r"dictionaries/([0-9a-f]{64})\.json")


def file_of(document: str) -> str:
    """Where the document of this hash stands in an export."""
    return f"dictionaries/{document}.json"


def is_dictionary(name: str) -> bool:
    """Whether a file stands where documents of dictionaries do."""
    return _NAME.fullmatch(name) is not None


def check_dictionaries(
    role: str, part: Part, adoptions: Adoptions, is_complete: bool, findings: Findings
) -> dict[str, Linkage]:
    """Check every file against the adoption that names it; `is_complete`: the log holds no other adoptions.

    Gives by what records are linked under each dictionary whose document holds, by the dictionary's hash.
    """
    linkages: dict[str, Linkage] = {}
    handed_in = {match[1]: name for name, is_file in part.names() if is_file and (match := _NAME.fullmatch(name))}
    for document, (entry, event) in adoptions.items():
        if document not in handed_in:
            findings.problem("FILE_MISSING", role, entry, file_of(document))
            continue
        try:
            data = part.read(handed_in[document], MAX_DOCUMENT_BYTES)
            dictionary = _dictionary_in(data, document)
        except UnreadableError as error:
            findings.problem(error.code, role, entry, error.name)
        except ValueError as error:
            findings.problem("DICTIONARY_DIFFERS", role, entry, str(error))
        else:
            adoption = Adoption(version=event.version, dictionary=event.dictionary, document=event.document)
            if adoption_of(dictionary, data) == adoption:
                linkages[event.dictionary] = dictionary.linkage
            else:
                findings.problem("DICTIONARY_DIFFERS", role, entry, file_of(document))
    for document, name in handed_in.items():
        if is_complete and document not in adoptions:
            findings.problem("UNKNOWN_FILE", role, None, name)
    return linkages


def _dictionary_in(data: bytes, document: str) -> Dictionary:
    """That of the document of this hash; nothing of another one is read."""
    if hash_bytes(data).hex() != document:
        raise ValueError("it is another one")
    return parse_dictionary_document(data)
