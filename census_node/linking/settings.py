"""The linkage staff's settings: linking.toml. Settings that it leaves out have the mode's usual values. Unknown settings are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.id_forms import ID_FORMS
from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Dictionary

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
# Limits for the form of a date, and for a file that people write by hand.
_MAX_FORM: Final = 40
_MAX_FILE_BYTES: Final = 64 * 1024


class LinkingSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How files are linked."""

    # `complementary`, or `nominative` for names alone. The home's dictionary may say otherwise.
    mode: Mode = "complementary"
    # A pair is linked from this probability on, its rivals considered.
    threshold: Probability = 0.99
    # From this probability up to the threshold it is for review.
    review_from: Probability = 0.2
    # So many unlinked pairs are written for review, at most.
    review_most: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    # So many linked pairs are, too.
    sample: Annotated[int, Meta(ge=0, le=1_000_000)] = 200
    # Roughly what share of the register's clients the census counted.
    in_census: Probability = 0.9
    # Pairs are compared if they agree in all columns of one rule.
    blocking: Annotated[tuple[Rule, ...], Meta(min_length=1)] = (
        ("birth_date", "surname"),
        ("birth_date", "given_name"),
        ("birth_date", "postal_code"),
        ("given_name", "surname", "birth_year"),
        ("given_name", "surname", "postal_code"),
    )
    # Weights are learned from pairs that agree in one of these. Every compared column must be absent from one of them.
    training: tuple[Rule, ...] = (("birth_date", "given_name"), ("surname", "postal_code"))
    # The columns whose agreement counts.
    compared: Annotated[tuple[Compared, ...], Meta(min_length=2)] = (
        "given_name",
        "second_name",
        "surname",
        "birth_date",
        "sex",
        "postal_code",
    )
    # How both files write dates.
    date_format: Annotated[str, Meta(min_length=2, max_length=_MAX_FORM)] = "%Y-%m-%d"
    # The form of the cards; as in that dictionary.
    id_form: str = "ontario_health_card"
    # The seed decides which pairs are drawn for training and review.
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 1
    # Pairs that are learned from, at most.
    training_pairs: Annotated[int, Meta(ge=10_000, le=_MAX_PAIRS)] = 2_000_000
    # Memory, in MiB; the rest is taken from the disk.
    memory_mib: Annotated[int, Meta(ge=256, le=1 << 20)] = 4_096
    # 0 is one for each processor.
    threads: Annotated[int, Meta(ge=0, le=_MAX_THREADS)] = 0


# Defaults for names alone: they are compared, nothing is learned, and a pair must be much surer.
_NOMINATIVE: Final[dict[str, Any]] = {
    "threshold": 0.995,
    "blocking": [["given_name", "surname"]],
    "training": [],
    "compared": ["given_name", "second_name", "surname"],
}


def read_settings(path: Path | None, mode: Mode | None = None, dictionary: Dictionary | None = None) -> LinkingSettings:
    """The settings of a file; what it leaves out is usual, or as the dictionary has it. `mode` outranks both.

    Raises:
        InvalidRequestError: CONFIG_INVALID, FILE_UNUSABLE.
    """
    published: dict[str, Any] = {} if dictionary is None else {"id_form": dictionary.id_form}
    if dictionary is not None and dictionary.linkage in MODES:
        published["mode"] = dictionary.linkage
    if path is None:
        return _settings(published, mode, SETTINGS_FILE)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES)
        return _settings(published | msgspec.toml.decode(data, type=dict[str, Any]), mode, str(path))
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
    """Conflicts between settings that are each valid."""
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
