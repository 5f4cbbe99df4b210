"""Making a health home: keys of its own, a first card, an empty log, and the linkage chain if it has been handed over."""

from __future__ import annotations

from pathlib import Path

from broker_common.storage.creation import new_agency
from broker_common.storage.linkage_keys import chain_handed_over
from health_node.config import HealthConfig
from health_node.opening import HealthHome


def create_home(path: Path, config: HealthConfig, *, linkage_file: Path | None, dictionary: Path | None) -> HealthHome:
    """A new home; without `linkage_file` it holds no linkage key yet, without `dictionary` nothing can be loaded.

    Raises:
        InvalidRequestError: HOME_INVALID, the folder holds something; INVALID_VALUE, CONFIG_INVALID, DICTIONARY_INVALID.
    """
    linkage = None if linkage_file is None else chain_handed_over(linkage_file)
    with new_agency(HealthHome, path, config, linkage, dictionary) as made:
        if dictionary is not None:
            # A table that it does not have is said now, and not by the first load.
            config.declared(made.newest_dictionary())
        return made
