"""Threads of a node share one heap: what one of them has let go, another one takes."""

from __future__ import annotations

import subprocess
import sys

# Each thread takes and lets go of as much as a large sample has, one after the other.
_PROGRAM = """
import ctypes, pathlib, sys, threading
from broker_common.heap import share_one_heap
if sys.argv[1] == "shared":
    print(share_one_heap())
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
hold = threading.Barrier(9)

def work():
    # Many small ones, which no C library gives back one by one, below one that stays.
    taken = [malloc(1 << 16) for _ in range(256)]
    for each in taken:
        ctypes.memset(each, 1, 1 << 16)
    stays = malloc(1 << 16)
    for each in taken:
        free(each)
    turn.release()
    hold.wait()

turn = threading.Semaphore(0)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
    turn.acquire()
hold.wait()
for thread in threads:
    thread.join()
# Memory of this program alone: resource.getrusage counts from the process that started it.
print(*(line.split()[1] for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


def peak(how: str) -> tuple[list[str], int]:
    """The program's report of its heap, and its most memory in KiB."""
    words = [sys.executable, "-c", _PROGRAM, how]
    *said, kibibytes = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return said, int(kibibytes)


def test_memory_of_one_thread_is_taken_by_the_next() -> None:
    """Eight threads, one after the other, 16 MiB each: as one heap they need it twice at most, as eight they keep it all."""
    said, shared = peak("shared")
    _, apart = peak("apart")
    assert said == ["True"]
    assert apart - shared > 4 * 16 * 1024
