"""What the linkage staff sets: linking.toml. What it leaves out is usual for the mode. Unknown settings are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.id_forms import ID_FORMS, ONTARIO
from broker_common.errors import InvalidRequestError

Mode: TypeAlias = Literal["complementary", "nominative"]
MODES: Final[tuple[Mode, ...]] = ("complementary", "nominative")
SETTINGS_FILE: Final = "linking.toml"

Compared: TypeAlias = Literal["given_name", "second_name", "surname", "birth_date", "sex", "postal_code"]
Blocked: TypeAlias = Literal[
    "given_name",
    "second_name",
    "surname",
    "birth_date",
    "birth_year",
    "sex",
    "postal_code",
    "postal_area",
]
Probability: TypeAlias = Annotated[float, Meta(gt=0, lt=1)]
Rule: TypeAlias = Annotated[tuple[Blocked, ...], Meta(min_length=1)]

# Pairs and threads that any machine could be asked for.
_MAX_PAIRS: Final = 10**9
_MAX_THREADS: Final = 1024
# Of the form of a date, and of a file that people write by hand.
_MAX_FORM: Final = 40
_MAX_FILE_BYTES: Final = 64 * 1024


class LinkingSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How files are linked."""

    # complementary: by card, with a register of names, birth dates, sex and postal codes. nominative: by names alone.
    mode: Mode = "complementary"
    # A pair is linked from this match probability on, after what speaks for its rivals.
    threshold: Probability = 0.99
    # Pairs from this match probability up to the threshold are for clerical review.
    review_from: Probability = 0.2
    # At most this many pairs are written for review, drawn at random.
    review_most: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    # So many of the linked pairs are written for review, too: how often clerks confirm them estimates precision.
    sample: Annotated[int, Meta(ge=0, le=1_000_000)] = 200
    # Roughly what share of the register's clients the census counted. A pair is the likelier a match, the larger it is.
    in_census: Probability = 0.9
    # Pairs are compared if they agree in all columns of one of these rules.
    blocking: Annotated[tuple[Rule, ...], Meta(min_length=1)] = (
        ("birth_date", "surname"),
        ("birth_date", "given_name"),
        ("birth_date", "postal_code"),
        ("given_name", "surname", "birth_year"),
        ("given_name", "surname", "postal_code"),
    )
    # How often true pairs agree is learned from pairs that agree in these. Every compared column must be free in one of them.
    training: tuple[Rule, ...] = (("birth_date", "given_name"), ("surname", "postal_code"))
    # The columns whose agreement counts.
    compared: Annotated[tuple[Compared, ...], Meta(min_length=2)] = (
        *("given_name", "second_name", "surname", "birth_date", "sex", "postal_code"),
    )
    # How dates are written in both files.
    date_format: Annotated[str, Meta(min_length=2, max_length=_MAX_FORM)] = "%Y-%m-%d"
    # The form of the cards, as the agencies' dictionaries have it: 'census load' checks cards by the same rule.
    id_form: str = ONTARIO
    # Which pairs are drawn for training and review.
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 1
    # Pairs that training looks at, at most.
    training_pairs: Annotated[int, Meta(ge=10_000, le=_MAX_PAIRS)] = 2_000_000
    # Memory that the linkage takes, in MiB; beyond that it writes into its private folder.
    memory_mib: Annotated[int, Meta(ge=256, le=1 << 20)] = 4_096
    # Threads; 0 for one on each processor.
    threads: Annotated[int, Meta(ge=0, le=_MAX_THREADS)] = 0


# What is usual for names alone: they are compared, nothing is learned, and a pair must be much surer.
_NOMINATIVE: Final[dict[str, Any]] = {
    "threshold": 0.995,
    "blocking": [["given_name", "surname"]],
    "training": [],
    "compared": ["given_name", "second_name", "surname"],
}


def read_settings(path: Path | None, mode: Mode | None) -> LinkingSettings:
    """The settings of a file, or the usual ones without a file; `mode` outranks that of the file.

    Raises:
        InvalidRequestError: CONFIG_INVALID, FILE_UNUSABLE.
    """
    if path is None:
        return _settings({}, mode, SETTINGS_FILE)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES)
        return _settings(msgspec.toml.decode(data, type=dict[str, Any]), mode, str(path))
    except OSError as error:
        raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem=error.strerror or "unreadable") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequestError("CONFIG_INVALID", file=str(path), problem=str(error)) from error


def _settings(given: dict[str, Any], mode: Mode | None, file: str) -> LinkingSettings:
    named = {**given, **({} if mode is None else {"mode": mode})}
    usual = _NOMINATIVE if named.get("mode") == "nominative" else {}
    settings = msgspec.convert(usual | named, LinkingSettings)
    for problem in _problems(settings):
        raise InvalidRequestError("CONFIG_INVALID", file=file, problem=problem)
    return settings


def _problems(settings: LinkingSettings) -> list[str]:
    """What is wrong between settings that are each right."""
    problems = []
    if settings.review_from >= settings.threshold:
        problems.append("review_from must be below threshold")
    if settings.threshold <= 1 / 2:
        problems.append("threshold must be above 0.5, or one card could have two persons")
    if settings.id_form not in ID_FORMS:
        problems.append(f"id_form is one of {', '.join(ID_FORMS)}")
    if settings.training:
        columns = [{_compared(column) for column in rule} for rule in settings.training]
        never = [name for name in settings.compared if all(name in rule for rule in columns)]
        if never:
            problems.append(f"every rule of training holds {', '.join(never)}, so nothing is learned of it")
    return problems


def _compared(column: Blocked) -> str:
    """The compared column that a column of a rule is a part of."""
    return {"birth_year": "birth_date", "postal_area": "postal_code"}.get(column, column)
