"""`tripartite lab serve` as a process: its one line, how it ends, and the file that needs no server."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path

import pytest
from browser.lab_site import LabSite, lab_site
from fakes.deployment import run
from fakes.nursery import PROGRAM

pytestmark = pytest.mark.process


def start(*words: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The command, with what it says."""
    return subprocess.Popen(
        [PROGRAM, "lab", "serve", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def said_by(process: subprocess.Popen[str]) -> str:
    """Its first line."""
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_it_ends_a_dashboard(number: signal.Signals) -> None:
    """With exit code 0 and not a word more."""
    process = start()
    assert said_by(process).startswith("policy lab ready on http://127.0.0.1:")
    process.send_signal(number)
    assert process.communicate() == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize(("tongue", "words"), [("en", "policy lab ready on"), ("fr", "prêt")])
def test_its_line_is_in_the_reader_s_language_and_ends_with_the_address(tongue: str, words: str) -> None:
    """Scripts wait for 'ready' and take the address from the end. With --while-stdin-open the end of its parent ends it."""
    process = start("--while-stdin-open", environment={"TRIPARTITE_LANG": tongue})
    line = said_by(process)
    assert words in line
    assert "ready" in line
    address = line.split()[-1]
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - our own server
        assert answer.status == 200
    assert process.communicate("")[1] == ""
    assert process.returncode == 0


def test_with_json_stdout_holds_one_object() -> None:
    """The address, for programs."""
    process = start("--json", "--while-stdin-open")
    first = said_by(process)
    assert process.communicate("")[0] == ""
    assert set(json.loads(first)) == {"address"}


@pytest.fixture(scope="module")
def site() -> Iterator[LabSite]:
    """One that serves."""
    with lab_site() as served:
        yield served


def test_it_answers_on_this_machine_alone(site: LabSite) -> None:
    """Other addresses of the machine are not listened on, and other names are refused."""
    with socket.create_connection(("127.0.0.1", site.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"421"
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", site.port))


def test_a_taken_port_is_an_error_that_names_the_remedy(site: LabSite) -> None:
    """Exit code 4, no traceback; the first server goes on."""
    done = run("lab", "serve", "--port", str(site.port))
    assert (done.code, done.stdout) == (4, "")
    assert "[PORT_TAKEN]" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr
    with urllib.request.urlopen(site.address) as answer:  # noqa: S310 - our own server
        assert answer.status == 200


@pytest.mark.parametrize("port", ["-1", "65536", "x", "1e308"])
def test_a_port_that_cannot_be_is_refused(port: str) -> None:
    """In words, as every wrong command line."""
    done = run("lab", "serve", "--port", port)
    assert (done.code, done.stdout) == (2, "")
    assert "65535" in done.stderr


def test_the_page_without_a_server_is_written_to_be_handed_on(tmp_path: Path) -> None:
    """One file for each language, readable by everybody under the usual umask, complete in itself."""
    done = run("lab", "serve", "--save", tmp_path / "out" / "pages", "--json")
    assert (done.code, done.stderr) == (0, "")
    files = [Path(name) for name in done.result["files"]]
    assert [file.name for file in files] == ["local-noise.en.html", "local-noise.fr.html"]
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        text = file.read_text("utf-8")
        assert "connect-src 'none'" in unescape(text)
        assert text.rstrip().endswith("</html>")


def test_a_folder_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    """No traceback."""
    (tmp_path / "file").write_text("")
    done = run("lab", "serve", "--save", tmp_path / "file" / "inside")
    assert done.code != 0
    assert "Traceback" not in done.stderr
