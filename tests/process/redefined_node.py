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
    # Importing them has imported their packages, which read them: wherever one stands, before anything else reads it.
    for name, home in (
        ("CENSUS_DICTIONARY", census_node.registry.dictionary),
        ("HEALTH_DICTIONARY", health_node.dictionary),
    ):
        changed = change(getattr(home, name))
        for module in list(sys.modules.values()):
            if name in vars(module):
                setattr(module, name, changed)

    from broker_common.cli import main

    main(sys.argv[2:])
