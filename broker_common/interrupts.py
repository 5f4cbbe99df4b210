"""How a process ends early: by Ctrl-C while no command runs, or with its parent, by the end of standard input.

While modules are imported, and while the interpreter ends, Python would print a traceback of whatever it was just reading, and a library that is being imported may turn the interrupt
into another error or lose it. Before a command begins nothing has been done, and after its end everything has: the process
may end at once. Only the start of the interpreter itself, before our first line, is out of reach.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

# The exit code of a command that was interrupted.
INTERRUPTED = 130
TEXT = "The command was interrupted."
HINT = "Unfinished work is dropped; run it again."


def end_at_once() -> None:
    """Let Ctrl-C end the process with what a command says that is interrupted, until `leave_to_command`."""
    _replace(signal.default_int_handler, _end_at_once)


def leave_to_command() -> None:
    """Let Ctrl-C be an exception again, which a command may handle."""
    _replace(_end_at_once, signal.default_int_handler)


def end_quietly() -> None:
    """Let Ctrl-C end the process without a word: the command has said what there was to say."""
    _replace(_end_at_once, _end_quietly)
    _replace(signal.default_int_handler, _end_quietly)


def _replace(before: object, after: object) -> None:
    # A parent that started us with interrupts ignored, as a shell's background does, keeps them ignored.
    if signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, after)  # type: ignore[arg-type]


def _end_at_once(number: int, frame: FrameType | None) -> None:
    del number, frame
    # Written by hand: the modules that would do it may not be imported yet.
    if "--json" in sys.argv:
        os.write(1, f'{{"error": {{"code": "INTERRUPTED", "text": "{TEXT}", "hint": "{HINT}"}}}}\n'.encode())
    else:
        os.write(2, f"Interrupted. {HINT}\n".encode())
    os._exit(INTERRUPTED)


def _end_quietly(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(INTERRUPTED)


_PIECE = 4096


def watch_lifeline() -> None:
    """Stop this process when standard input ends."""
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()


def _stop_at_end_of_input() -> None:
    # A parent that dies, however it dies, closes the pipe: no node is left behind holding a port.
    while os.read(sys.stdin.fileno(), _PIECE):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
