"""Making a health home: keys of its own, a first card, an empty log, and the linkage chain if it has been handed over."""

from __future__ import annotations

from pathlib import Path

from broker_common.agency.home import new_agency
from broker_common.agency.linkage import chain_handed_over
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import Dictionary
from health_node import texts
from health_node.assembly import HealthHome
from health_node.config import HealthConfig
from health_node.people.tables import shapes_of


def create_home(path: Path, config: HealthConfig, *, linkage_file: Path | None, dictionary: Path | None) -> HealthHome:
    """A new home; without `linkage_file` it holds no linkage key yet, without `dictionary` nothing can be loaded.

    Raises:
        InvalidRequestError: HOME_INVALID, the folder holds something; INVALID_VALUE, CONFIG_INVALID, DICTIONARY_INVALID.
    """
    linkage = None if linkage_file is None else chain_handed_over(linkage_file)
    with new_agency(HealthHome, path, config, linkage, dictionary) as made:
        if dictionary is not None:
            # A table that it does not have is said now, and not by the first load.
            _verify_rows(config, made.newest_dictionary())
            config.declared(made.newest_dictionary())
        return made


def _verify_rows(config: HealthConfig, dictionary: Dictionary) -> None:
    """Return only if the dictionary has every table that rows were declared of: here that is an option, and no file yet."""
    tables = [shape.name for shape in shapes_of(dictionary)]
    if unknown := sorted(config.rows.keys() - set(tables)):
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="--rows",
            problem=phrase(texts.NO_TABLE, table=unknown[0]),
            remedy=phrase(texts.TABLES_OF_ROWS, tables=", ".join(tables) or "-"),
        )
