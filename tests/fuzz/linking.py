"""Linkage staff's files: settings, and decisions of clerks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuzz.target import Target, fresh_path, require

from census_node.linking.decisions import Decision, read_decisions
from census_node.linking.settings import LinkingSettings, read_settings

_SETTINGS = b"""\
mode = "nominative"
threshold = 0.99
review_from = 0.2
seed = 7
blocking = [["given_name", "surname"], ["surname", "birth_year"]]
compared = ["given_name", "surname"]
id_form = "digits"
"""
_DECISIONS = b"decision,health_card,person_id,probability\nlink,9876543217,p1,0.5\nno,9876543217,p2,0.4\n,1,p3,0.1\n"


def _settings(data: bytes) -> LinkingSettings:
    path = fresh_path(".toml")
    path.write_bytes(data)
    try:
        return read_settings(path)
    finally:
        path.unlink()


def _check_settings(settings: LinkingSettings, data: bytes) -> None:
    del data
    require(settings.review_from < settings.threshold, "what is for review is not linked")


def _decisions(data: bytes) -> list[Decision]:
    path = fresh_path(".csv")
    path.write_bytes(data)
    try:
        return read_decisions(path)
    finally:
        path.unlink()


def _check_decisions(decisions: list[Decision], data: bytes) -> None:
    del data
    pairs = {(decision.card, decision.person) for decision in decisions}
    require(len(pairs) == len(decisions), "a pair is decided once")


TARGETS: Mapping[str, Target[Any]] = {
    "linking_settings": Target(
        parse=_settings,
        covers=(read_settings,),
        seeds=lambda: {
            "whole": _SETTINGS,
            "empty": b"",
            "bad": b"treshold = 0.9\n",
        },
        codes=frozenset({"CONFIG_INVALID", "FILE_UNUSABLE"}),
        check=_check_settings,
        words=(b"\n", b" = ", b'"', b"[[", b"]]", b'["birth_date"]', b"1e308", b"-1", b"nominative"),
        mutations=400,
    ),
    "linking_decisions": Target(
        parse=_decisions,
        covers=(read_decisions,),
        seeds=lambda: {
            "some": _DECISIONS,
            "quoted": b'decision,health_card,person_id\n"link","1","p,1"\n',
            "bad": b"decision,health_card\n",
        },
        codes=frozenset({"LINKING_REFUSED", "FILE_UNUSABLE"}),
        check=_check_decisions,
        words=(b"link", b"no", b"\n", b",", b'"', b"\x00"),
        mutations=400,
    ),
}
