"""One target under libFuzzer, its product modules instrumented: `python -m fuzz.guided TARGET LIBFUZZER-ARGUMENTS...`.

Never returns: libFuzzer ends the process when its time is over or at the first finding. `explore` starts it.
"""

from __future__ import annotations

import sys

import atheris

# Modules imported in here are instrumented, so that the fuzzer sees which of our own branches an input takes.
with atheris.instrument_imports(include=["broker_common", "census_node", "health_node", "researcher_node"]):
    from fuzz.targets import TARGETS

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name].accepts)
    atheris.Fuzz()
