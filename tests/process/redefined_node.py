"""The program after its dictionaries were changed: `redefined_node.py reordered census serve --home ...`.

The change is one of `fakes.dictionaries`; everything else is the product as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import census_node.registry.dictionary
import health_node.dictionary

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))
    from fakes.dictionaries import CHANGES, relabelled

    change = relabelled if sys.argv[1] == "relabelled" else CHANGES[sys.argv[1]]
    # Before anything else of the nodes reads them.
    census_node.registry.dictionary.CENSUS_DICTIONARY = change(census_node.registry.dictionary.CENSUS_DICTIONARY)  # type: ignore[misc]
    health_node.dictionary.HEALTH_DICTIONARY = change(health_node.dictionary.HEALTH_DICTIONARY)  # type: ignore[misc]

    from broker_common.cli import main

    main(sys.argv[2:])
