"""The sentences of `health load` and `census load` about what a load has read."""

from __future__ import annotations

CHECK_HELP = "Read everything and report, and load nothing."
CHECKED = "Nothing was loaded: this was a check. What was loaded before is still in force."
REJECTED_FILE = "Every row that was left out stands in {file}."
FIRST = "No load before this one has left figures to compare with."
SAME = "Nothing has changed since the load before: every row is the same."
EQUAL_FIGURES = "Since the load before no figure has changed; the rows themselves, or how they are written, have."
CHANGED = "Since the load before:"
SIZE = "  {what}: {before:,} before, {now:,} now"
SHARE = "  {what}: {before:g} % before, {now:g} % now"
CODES_VANISHED = "  {of}: no row has these codes any more: {codes}"
CODES_APPEARED = "  {of}: these codes are new: {codes}"
MUCH = "WARNING: {count} of these changed by much. Make sure that the load is whole before you rely on it."
EVENTS = "  {table}: {loaded:,} events of {rows:,} rows; {without_card:,} have no id, {of_nobody:,} are of nobody, {rejected:,} were left out as wrong"
VALUES = "  {column}: {of_people:,} values of people in {rows:,} rows; {without_card:,} have no id, {without_value:,} have no value, {rejected:,} were left out as wrong"
OF_NOBODY = (
    "  WARNING: most events of {table} are of nobody. Is the id of both tables the same, and written in one way?"
)
NAMES = {
    "rows": "rows",
    "people": "people",
    "rejected_percent": "rejected rows",
    "events": "events of {of}",
    "missing_percent": "rows without {of}",
}
