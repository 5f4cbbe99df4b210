"""Texts that every document has in common."""

from __future__ import annotations

CITIZEN = "For everybody"
SPECIALIST = "For specialists"
REPRODUCE = "Reproduce this with"
REPRODUCE_DOCUMENT = "This document is made again with"
ASKED_WITH = "This document was asked for with"
SOURCE = "Source: {words}"
PAGE = "Page {page} of {pages}"
CONTENTS = "Contents"
LIMIT = "{label}: {value}"
MARK = "What this was made from"
