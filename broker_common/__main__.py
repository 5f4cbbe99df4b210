"""Where `tripartite` and `python -m broker_common` begin; `tripartite up` starts its children the second way."""

import gc
import os

from broker_common import interrupts


def main() -> None:
    """Run the program."""
    try:
        interrupts.end_at_once()
        # Modules are no garbage: looking for it again and again takes a fifth of a start. On again once a command is found.
        gc.disable()
        try:
            # Imported here: Ctrl-C must not meet it half way.
            from broker_common.cli import main as run  # noqa: PLC0415

            run()
        finally:
            interrupts.end_quietly()
            # Nor is it looked for among them at the end, where all of it goes.
            gc.freeze()
    except KeyboardInterrupt:
        # A second Ctrl-C while the first one was answered.
        os._exit(interrupts.INTERRUPTED)


if __name__ == "__main__":
    main()
