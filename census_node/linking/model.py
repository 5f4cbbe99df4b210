"""How likely two rows are of one person: agreement weights, learned by Splink, and the pairs that it scores.

The model is that of Fellegi and Sunter. How often strangers agree is measured on random pairs; how often one person's two rows agree is
learned by expectation maximisation, or, for names alone, declared: from two or three columns it cannot be learned. Agreement on a rare
name weighs more than on a common one. How likely any two rows are of one person follows from the declared share of clients who
are in the census. Learned figures are rounded before they are used, so that the order in which threads added them up changes nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from splink import DuckDBAPI, Linker, block_on
from splink.internals.exceptions import EMTrainingException

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from census_node.linking import texts
from census_node.linking.reading import Database
from census_node.linking.settings import LinkingSettings

Done = Callable[[float], None]
"""Told the share of the work that is done."""

# Pairs below this probability are nobody's rivals.
LEAST_PROBABILITY: Final = 0.001

# Rounds of learning; ten are usual, and files that need more have nothing to learn from.
_MOST_ITERATIONS: Final = 50
# No figure changes by more in the last of them.
_CONVERGED: Final = 0.0005
# No disagreement is so strange that it decides alone.
_LEAST_M: Final = 0.001
_DIGITS: Final = 6
# How often the two rows of one person agree in each level, the last of them 'other', where that is declared.
_DECLARED_M: Final = {
    "given_name": (0.92, 0.01, 0.03, 0.04),
    "second_name": (0.7, 0.2, 0.1),
    "surname": (0.9, 0.04, 0.02, 0.04),
    "birth_date": (0.96, 0.01, 0.01, 0.02),
    "sex": (0.99, 0.01),
    "postal_code": (0.85, 0.1, 0.05),
}

Level = tuple[str, str]
"""Name and SQL of a level of agreement, most alike first; the rest is 'other'."""
OTHER: Final = "other"

_LEVELS: Final[dict[str, tuple[Level, ...]]] = {
    "given_name": (
        ("same", "given_name_l = given_name_r"),
        ("swapped", "given_name_l = second_name_r or second_name_l = given_name_r"),
        ("similar", "jaro_winkler_similarity(given_name_l, given_name_r) >= 0.88"),
    ),
    "second_name": (
        ("same", "second_name_l = second_name_r"),
        ("initial", "left(second_name_l, 1) = left(second_name_r, 1)"),
    ),
    "surname": (
        ("same", "surname_l = surname_r"),
        ("similar", "jaro_winkler_similarity(surname_l, surname_r) >= 0.88"),
        ("shares a part", "list_has_any(surname_parts_l, surname_parts_r)"),
    ),
    "birth_date": (
        ("same", "birth_date_l = birth_date_r"),
        (
            "day and month swapped",
            "birth_year_l = birth_year_r and birth_date_l[6:7] = birth_date_r[9:10] and birth_date_l[9:10] = birth_date_r[6:7]",
        ),
        ("one digit", "damerau_levenshtein(birth_date_l, birth_date_r) = 1"),
    ),
    "sex": (("same", "sex_l = sex_r"),),
    "postal_code": (("same", "postal_code_l = postal_code_r"), ("same area", "postal_area_l = postal_area_r")),
}
_RARE: Final = frozenset({"given_name", "second_name", "surname"})


def score_pairs(database: Database, settings: LinkingSettings, persons: int, done: Done) -> dict[str, Any]:
    """Make `pairs` (person row, register row, weight, and whether given name or birth date are others'); gives the model.

    Raises:
        InvalidRequestError: LINKING_NOT_LEARNED.
    """
    # This module looks in the model itself for what the library would warn of.
    logging.getLogger("splink").setLevel(logging.ERROR)
    learned = _learned(database, settings, persons, done)
    predicted = _linker(database, learned).inference.predict(threshold_match_probability=LEAST_PROBABILITY)
    others = [f"gamma_{name} = 0" for name in ("given_name", "birth_date") if name in settings.compared]
    database.execute(
        f"""
        create table pairs as
        select case when source_dataset_l = 'a_census' then unique_id_l else unique_id_r end as person,
            case when source_dataset_l = 'a_census' then unique_id_r else unique_id_l end as client_row,
            round(match_weight, {_DIGITS}) as weight, {" or ".join(others)} as differs
        from {predicted.physical_name}
        """
    )
    predicted.drop_table_from_database_and_remove_from_cache()
    done(1.0)
    return learned


def _linker(database: Database, model: dict[str, Any]) -> Linker:
    api = DuckDBAPI(connection=database)
    sides = [
        api.register(f"{side}_side", table_name=f"{name}_{id(api)}", dataset_display_name=name)
        for side, name in (("census", "a_census"), ("register", "b_register"))
    ]
    return Linker(sides, model, log_level=None)


def _learned(database: Database, settings: LinkingSettings, persons: int, done: Done) -> dict[str, Any]:
    linker = _linker(database, _blank(settings, persons))
    linker.training.estimate_u_using_random_sampling(max_pairs=settings.training_pairs, seed=settings.seed)
    done(0.3)
    for number, rule in enumerate(settings.training, 1):
        try:
            session = linker.training.estimate_parameters_using_expectation_maximisation(
                block_on(*rule), max_pairs=settings.training_pairs
            )
        except EMTrainingException:
            _not_learned(phrase(texts.NO_PAIRS, rule=", ".join(rule)))
        # One more than there were iterations.
        if len(session._core_model_settings_history) > _MOST_ITERATIONS:  # noqa: SLF001 - the only place where it is kept
            _not_learned(phrase(texts.NOT_CONVERGED, rule=", ".join(rule), count=_MOST_ITERATIONS))
        done(0.3 + 0.3 * number / len(settings.training))
    model = linker.misc.save_model_to_json()
    for comparison in model["comparisons"]:
        _settle(comparison, settings.training_pairs)
    return model


def _blank(settings: LinkingSettings, persons: int) -> dict[str, Any]:
    """A model that has learned nothing yet."""
    return {
        "link_type": "link_only",
        "probability_two_random_records_match": min(settings.in_census / persons, 1 / 2),
        "comparisons": [_comparison(name, settings) for name in settings.compared],
        "blocking_rules_to_generate_predictions": [
            block_on(*rule).create_blocking_rule_dict("duckdb") for rule in settings.blocking
        ],
        "max_iterations": _MOST_ITERATIONS,
        "em_convergence": _CONVERGED,
        # With them come the levels of agreement.
        "retain_matching_columns": True,
    }


def _comparison(name: str, settings: LinkingSettings) -> dict[str, Any]:
    levels: list[dict[str, Any]] = [
        {
            "sql_condition": f"{name}_l is null or {name}_r is null",
            "label_for_charts": "missing",
            "is_null_level": True,
        }
    ]
    for label, condition in _LEVELS[name]:
        level: dict[str, Any] = {"sql_condition": condition, "label_for_charts": label}
        if label == "same" and name in _RARE:
            level["tf_adjustment_column"] = name
        levels.append(level)
    levels.append({"sql_condition": "ELSE", "label_for_charts": OTHER})
    if settings.mode == "nominative":
        for level, chance in zip(levels[1:], _DECLARED_M[name], strict=True):
            level["m_probability"] = chance
    return {"output_column_name": name, "comparison_levels": levels}


def _settle(comparison: dict[str, Any], pairs: int) -> None:
    """Round what was learned of a column, and give the least to levels that were never seen."""
    name = comparison["output_column_name"]
    levels = [level for level in comparison["comparison_levels"] if not level.get("is_null_level")]
    if not all(any(kind in level for level in levels) for kind in ("m_probability", "u_probability")):
        _not_learned(phrase(texts.NOTHING_LEARNED, column=name))
    for level in levels:
        strangers = max(level.get("u_probability", 0.0), 1 / pairs)
        # A level that was never seen, of one person or of strangers, speaks neither for nor against.
        level["u_probability"] = _rounded(strangers)
        level["m_probability"] = _rounded(max(level.get("m_probability", 0.0), min(_LEAST_M, strangers)))
    same, other = levels[0], levels[-1]
    if same["m_probability"] <= same["u_probability"] or other["m_probability"] >= other["u_probability"]:
        _not_learned(phrase(texts.LEARNED_NONSENSE, column=name))


def _rounded(value: float) -> float:
    return round(value, _DIGITS - math.floor(math.log10(value)))


def _not_learned(problem: str) -> NoReturn:
    raise InvalidRequestError("LINKING_NOT_LEARNED", problem=problem) from None


def agreement(model: dict[str, Any]) -> list[dict[str, str | float]]:
    """The learned model, for the report: for each level how often rows of one person agree so, how often strangers' rows do, and the weight."""
    rows: list[dict[str, str | float]] = []
    for comparison in model["comparisons"]:
        levels: Sequence[dict[str, Any]] = comparison["comparison_levels"]
        rows += [
            {
                "column": comparison["output_column_name"],
                "level": level["label_for_charts"],
                "same_person": level["m_probability"],
                "strangers": level["u_probability"],
                "weight": round(math.log2(level["m_probability"] / level["u_probability"]), 2),
            }
            for level in levels
            if not level.get("is_null_level")
        ]
    return rows
