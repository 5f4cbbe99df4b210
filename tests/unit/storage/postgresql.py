"""A PostgreSQL server of a test's own, on a socket in a folder and on no port; none where the programs are not installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Debian keeps them off the path.
_PLACES = os.pathsep.join([os.environ.get("PATH", ""), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))])
_INITDB, _PG_CTL = (shutil.which(name, path=_PLACES) for name in ("initdb", "pg_ctl"))
WHY_NOT = "" if _INITDB and _PG_CTL else "initdb and pg_ctl, programs of a PostgreSQL server, are not on this machine"
# The server refuses to run as root.
_USER = "nobody" if os.geteuid() == 0 else None


@contextmanager
def postgresql_server(folder: Path) -> Iterator[str]:
    """The address of a running server, whose files lie in a folder with a short name."""
    assert _INITDB is not None
    assert _PG_CTL is not None
    if _USER is not None:
        account = pwd.getpwnam(_USER)
        os.chown(folder, account.pw_uid, account.pw_gid)
    data, log = folder / "data", folder / "log"
    _run([_INITDB, "-D", str(data), "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync"])
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_connections=10"
    _run([_PG_CTL, "-D", str(data), "-l", str(log), "-o", options, "-w", "start"])
    try:
        yield f"postgresql://owner@/postgres?host={folder}"
    finally:
        _run([_PG_CTL, "-D", str(data), "-m", "immediate", "-w", "stop"])


def _run(command: list[str]) -> None:
    who: dict[str, Any] = {} if _USER is None else {"user": _USER, "extra_groups": []}
    # The server must inherit no pipe of ours, or waiting for the pipe would be waiting for the server.
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        **who,
    )
