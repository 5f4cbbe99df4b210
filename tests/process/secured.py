"""A census dashboard as `[dashboard]` in config.toml configures it, set up by the commands that the handbook gives an operator."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from fakes import nursery
from fakes.deployment import wait_until
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS

from broker_common.storage.clock import system_clock

ROOT = Path(__file__).parents[2]
HOST = "dashboard.census.example"
# Program with which the handbook makes certificates.
OPENSSL = shutil.which("openssl")
_ADDRESS = re.compile(r"dashboard on (https?)://127\.0\.0\.1:(\d+)/\s")


# --- what the handbook says ------------------------------------------------------------------------------------------


def documented(name: str, folder: Path, *changes: tuple[str, str]) -> str:
    """Run a block of commands of the handbook in a folder; gives what it prints."""
    text = (ROOT / "docs" / "dashboard.md").read_text("utf-8")
    found = re.search(rf"<!-- tested: {name} -->\n *```sh\n(.+?)\n *```", text, re.DOTALL)
    assert found is not None, name
    commands = found[1]
    for before, after in changes:
        assert before in commands, before
        commands = commands.replace(before, after)
    done = subprocess.run(
        ["/bin/sh", "-ec", commands],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Pair:
    """A certificate and its key as files."""

    certificate: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.certificate.read_text("ascii"))).hexdigest()


def operator(name: str, home: Path, *, is_admitted: bool = True) -> Pair:
    """An operator's certificate; let in by the handbook's commands, which give its fingerprint, unless told otherwise."""
    own = ("ada", name)
    documented("operator", home, own, ("-export", "-export -passout pass:"))
    pair = Pair(home / f"{name}.crt", home / f"{name}.key")
    if is_admitted:
        assert documented("admit", home, own).strip() == pair.fingerprint
    return pair


def made(
    folder: Path, name: str, *, days: tuple[int, int], issuer: Pair | None = None, subject: str | None = None
) -> Pair:
    """A certificate that no operator should have: good from and to so many days after now, perhaps signed by another's key."""
    key = ec.generate_private_key(ec.SECP256R1())
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject or name)])
    issued_by, signed_by = own, key
    if issuer is not None:
        issued_by = x509.load_pem_x509_certificate(issuer.certificate.read_bytes()).subject
        loaded = serialization.load_pem_private_key(issuer.key.read_bytes(), password=None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signed_by = loaded
    now = datetime.fromtimestamp(system_clock() // 1000, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(issued_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signed_by, hashes.SHA256())
    )
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pair


# --- a dashboard's process -------------------------------------------------------------------------------------------


class LogLines:
    """JSON lines that a process has logged since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[dict[str, Any]]:
        """The lines since the last look, apart from what is said of the node, which does not run."""
        text = self._path.read_text("utf-8")[self._read :]
        text = text[: text.rfind("\n") + 1]
        self._read += len(text)
        lines = [json.loads(line) for line in text.splitlines()]
        return [line for line in lines if line["event"] not in {"problem", "problem over"}]


@dataclass(frozen=True)
class Configured:
    """A dashboard that listens where config.toml says."""

    scheme: str
    port: int
    log: LogLines


def configure(home: Path, settings: Mapping[str, Any]) -> None:
    """Make this the home's [dashboard], and its log JSON."""
    text = (home / "config.toml").read_text("utf-8").partition("\n[dashboard]")[0].rstrip()
    if "log_format" not in text:
        text = f'log_format = "json"\n{text}'
    lines = [f"{name} = {_toml(value)}" for name, value in settings.items()]
    (home / "config.toml").write_text("\n".join([text, "", "[dashboard]", *lines, ""]), encoding="utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    return json.dumps(value)


@contextmanager
def configured(home: Path, log: Path) -> Iterator[Configured]:
    """The dashboard of a census home as its serving node would start it."""
    words = ["census", "dashboard", "--home", str(home), "--configured", "--while-stdin-open"]
    with log.open("w", encoding="utf-8") as stderr, nursery.piped([PROGRAM, *words], stderr=stderr.fileno()) as piped:
        found = _ADDRESS.match(piped.stdout.readline())
        assert found is not None, log.read_text("utf-8")
        yield Configured(found[1], int(found[2]), LogLines(log))


def form_of(page: Callable[[], httpx.Response]) -> dict[str, str]:
    """The fields of the order on a page, filled in; waits until the dashboard has read the log."""
    pattern = re.compile(r'class="act".+?name="token" value="([0-9a-f]+)"', re.DOTALL)
    wait_until(lambda: pattern.search(page().text) is not None, "the page has the order")
    found = pattern.search(page().text)
    assert found is not None
    return {"token": found[1], "reason": "a drill", "sure": "yes"}
