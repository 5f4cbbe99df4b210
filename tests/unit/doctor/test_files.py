"""`doctor`'s findings about a folder and its disk, each mistake by itself."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path

import pytest

from broker_common.doctor import files
from broker_common.doctor.files import disk_findings, file_findings, file_system_of
from broker_common.doctor.findings import Finding


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home on a disk that is as it should be."""
    home = tmp_path / "home"
    (home / "keys").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    for name in ("config.toml", "keys/tls.key", "source.toml", "journal.db"):
        (home / name).touch(mode=0o600)
    (home / "keys" / "identity.pub").touch(mode=0o644)
    monkeypatch.setattr(files, "file_system_of", lambda _: "ext4")
    monkeypatch.setattr(files, "flush_seconds", lambda _: 0.002)
    return home


def found(home: Path, check: str) -> list[Finding]:
    """Finding about one thing."""
    return [each for each in file_findings(home) if each.check == check]


def levels(home: Path, check: str) -> list[str]:
    """How bad it is."""
    return [each.level for each in found(home, check)]


def test_a_home_as_create_makes_it_is_well(home: Path) -> None:
    """Public keys may be read by anybody."""
    assert {each.level for each in file_findings(home)} == {"ok"}
    assert {each.check for each in file_findings(home)} == {"permissions", "disk", "space"}


@pytest.mark.parametrize("name", ["", "keys/tls.key", "source.toml", "journal.db"])
@pytest.mark.parametrize("mode", [0o040, 0o004, 0o020])
def test_what_others_may_read_is_named(home: Path, name: str, mode: int) -> None:
    """The home itself, a key, the private words of a source, the log."""
    path = home / name
    path.chmod(path.stat().st_mode | mode)
    (problem,) = found(home, "permissions")
    assert problem.level == "problem"
    assert (name or str(home)) in problem.text
    assert f"chmod -R go= {home}" in problem.remedy


@pytest.mark.parametrize("name", ["config.toml", "keys"])
def test_what_others_may_write_is_named(home: Path, name: str) -> None:
    """The writer of config.toml chooses the peers."""
    path = home / name
    path.chmod(path.stat().st_mode | 0o002)
    assert "problem" in levels(home, "permissions")
    assert any(name in each.text for each in found(home, "permissions"))


@pytest.mark.parametrize(
    ("kind", "seconds", "level"),
    [
        ("ext4", 0.002, "ok"),
        ("", 0.002, "ok"),
        ("ext4", 0.0, "warning"),
        ("ext4", 5e-6, "warning"),
        ("xfs", 0.5, "warning"),
        ("tmpfs", 0.0, "warning"),
        ("nfs4", 0.002, "warning"),
    ],
)
def test_a_disk_that_may_forget_is_suspected(
    home: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seconds: float, level: str
) -> None:
    """A flush that takes no time, memory, a network; and a disk too slow to work with."""
    monkeypatch.setattr(files, "file_system_of", lambda _: kind)
    monkeypatch.setattr(files, "flush_seconds", lambda _: seconds)
    assert [each.level for each in disk_findings(home)] == [level]


def test_the_flush_is_measured_and_leaves_nothing(tmp_path: Path) -> None:
    """The file that is written has no name afterwards, and every flush is one of the operating system."""
    flushed: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flushed.append)
        assert files.flush_seconds(tmp_path) >= 0
    assert len(flushed) == files._FLUSHES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "level"), [(500, "ok"), (30, "warning"), (0.5, "warning"), (0.05, "problem"), (0, "problem")]
)
def test_little_space_is_said_before_there_is_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, free: float, level: str
) -> None:
    """On a disk of a thousand gigabytes; a share counts as well as the bytes."""
    disk = namedtuple("disk", "f_bavail f_frsize f_blocks")  # noqa: PYI024 - as the library's own
    monkeypatch.setattr(os, "statvfs", lambda _: disk(int(free * 1000), 10**6, 10**6))
    assert levels(home, "space") == [level]


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    """A later mount hides an earlier one; where the machine does not tell, nothing is guessed."""
    home = tmp_path / "a disk" / "home"
    home.mkdir(parents=True)
    mounts = tmp_path / "mountinfo"
    escaped = str(home.parent).replace(" ", "\\040")
    mounts.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"30 22 0:5 / {escaped} rw,noexec shared:3 - tmpfs tmpfs rw\n"
        f"31 22 8:2 / {escaped} rw - xfs /dev/sdb1 rw\n"
    )
    assert file_system_of(home, mounts) == "xfs"
    assert file_system_of(tmp_path, mounts) == "ext4"
    assert file_system_of(home, tmp_path / "none") == ""
