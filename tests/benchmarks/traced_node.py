"""A node that also says when its stages began and ended: `traced_node.py FILE census serve --home ...`.

For each query one line of JSON is added to FILE: name, begin and end of every stage, by the clock that all processes of a
machine share. Everything else is the product as it is; its operator's setting `log_stages` must be on.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from broker_common import tracing
from broker_common.cli import main


def _trace(file: Path) -> None:
    add = tracing._Record.add
    spans: dict[int, list[tuple[str, float, float]]] = {}
    lock = threading.Lock()

    def traced(record: tracing._Record, name: str, milliseconds: float) -> None:
        end = time.perf_counter()
        with lock:
            of_query = spans.setdefault(id(record), [])
            of_query.append((name, end - milliseconds / 1000, end))
            if name == "total":
                del spans[id(record)]
                with file.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(of_query) + "\n")
        add(record, name, milliseconds)

    tracing._Record.add = traced  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    _trace(Path(sys.argv.pop(1)))
    main()
