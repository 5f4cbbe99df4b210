"""The dictionaries of the synthetic Ontario: the files of `deploy/examples/ontario`, which `init` puts into both agencies' homes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from broker_common.storage.dictionary.file import FILE_NAME, read_dictionary

_EXAMPLES: Final = Path(__file__).parents[1] / "examples" / "ontario"
HEALTH_FILE: Final = _EXAMPLES / "health" / FILE_NAME
CENSUS_FILE: Final = _EXAMPLES / "census" / FILE_NAME
HEALTH_DICTIONARY: Final = read_dictionary(HEALTH_FILE)
CENSUS_DICTIONARY: Final = read_dictionary(CENSUS_FILE)
