"""`init`: one folder with four homes, each holding its own keys and nothing that its role may not hold.

Keys are made here because this machine plays every part. In a real deployment each organisation makes its own, and what
travels between them are the cards that `_introduce` hands round, and the linkage key.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from broker_common.crypto.certificates import Identity
from broker_common.crypto.sealing import OpeningKey
from broker_common.crypto.secret import secret_text
from broker_common.crypto.signing import Purpose
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import cap_units, default_scales, param_of, parse_max_belief
from broker_common.privacy.delays import (
    declared_for,
    least_forward_delay_ms,
    usual_forward_delay_ms,
    usual_tick_ms,
)
from broker_common.privacy.policy import Accounting, Policy, Subject
from broker_common.storage.clock import system_clock
from broker_common.storage.dictionary_file import FILE_NAME as DICTIONARY_NAME
from broker_common.storage.dictionary_file import read_dictionary
from broker_common.storage.durable import replace_file
from broker_common.tlog.membership import peer_name
from census_node.opening import CensusHome
from census_node.operator.proposals import make_proposal
from deploy import texts
from deploy.filling import Filling, Report, fill
from deploy.synthetic.dictionaries import CENSUS_FILE, HEALTH_FILE
from deploy.synthetic.linkage import census_size
from health_node.opening import HealthHome
from researcher_node.opening import ResearcherHome

HOMES = ("researcher", "health", "census", "auditor")
# The census agency's witness store: on one machine only another folder, so that it has a place of its own at least.
_WITNESS = "witness"
RESEARCHER_ID = "researcher-1"
PROJECT = "official-languages"
RELEASE = "2011"
CENSUS_ORIGIN = "census.example/tripartite"
HEALTH_ORIGIN = "health.example/tripartite"
_DAY_MS = 86_400_000
# About eleven questions a day for each researcher, while samples are kept for 90 days.
_RESEARCHER_ANSWERS = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """What `init` was asked for."""

    population: int
    seed: int
    accounting: Accounting
    max_belief: str
    # None, here and below: what is usual for so many people.
    release_tick_ms: int | None = None
    forward_delay_ms: int | None = None
    subject: Subject = "person"
    researcher_answers: int = _RESEARCHER_ANSWERS
    # Settings under [limits] of the census node's config.toml.
    census_limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def places(self) -> int:
        """What the health agency declares."""
        return declared_for(self.population)

    @property
    def census_people(self) -> int:
        """What the census agency declares."""
        return declared_for(census_size(self.population))

    @property
    def least_forward_delay_ms(self) -> int:
        """What the forward delay has to be at least."""
        return least_forward_delay_ms(self.places)

    def policy(self) -> Policy:
        """The census agency's policy.

        Raises:
            InvalidRequestError: INVALID_VALUE, the limit admits no scale.
        """
        cap = cap_units(param_of(parse_max_belief(self.max_belief)))
        scales = default_scales(cap)
        if not scales:
            raise InvalidRequestError(
                "INVALID_VALUE",
                name="max_belief",
                problem="is so close to 0.5 that not even one answer at scale 50 fits",
                remedy="Use at least 0.505.",
            )
        forward_ms, tick_ms = self.forward_delay_ms, self.release_tick_ms
        return Policy(
            accounting=self.accounting,
            subject=self.subject,
            max_belief=self.max_belief,
            max_answers=0,
            scales=scales,
            forward_delay_ms=usual_forward_delay_ms(self.places) if forward_ms is None else forward_ms,
            release_tick_ms=usual_tick_ms(self.census_people, self.subject) if tick_ms is None else tick_ms,
            quote_lifetime_ms=10 * 60_000,
            open_quotes=64,
            answer_retention_ms=90 * _DAY_MS,
            sample_retention_ms=90 * _DAY_MS,
            researcher_answers=self.researcher_answers,
        )


def lay_out(directory: Path, plan: Plan, report: Report) -> Policy:
    """Make the deployment in `directory`, which is new or empty; on failure nothing of it is left.

    Raises:
        InvalidRequestError: HOME_INVALID, the directory holds something; INVALID_VALUE.
    """
    policy = plan.policy()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise InvalidRequestError(
            "HOME_INVALID",
            home=str(directory),
            role="new",
            problem="the folder is not empty",
            remedy=texts.EMPTY_FOLDER,
        )
    try:
        _make_homes(directory)
        _introduce(directory, plan)
        census = CensusHome(directory / "census")
        census.adopt(make_proposal(policy, census.private_policy_key()))
        fill(Filling(directory, plan.population, plan.seed, RELEASE), report)
    except BaseException:
        for name in (*HOMES, _WITNESS):
            shutil.rmtree(directory / name, ignore_errors=True)
        raise
    return policy


def _make_homes(directory: Path) -> None:
    (directory / _WITNESS).mkdir(mode=0o700)
    for name in HOMES:
        for folder in (directory / name, directory / name / "keys"):
            folder.mkdir(mode=0o700)
    # An agency knows its peers by its log; a researcher makes the folder with the first card.
    (directory / "auditor" / "trust").mkdir(mode=0o700)


def _introduce(directory: Path, plan: Plan) -> None:
    """Make every home's keys and card, and register the cards where they must be known."""
    ports = _free_ports(3)
    addresses = {
        role: f"127.0.0.1:{port}" for role, port in zip(("researcher", "health", "census"), ports, strict=True)
    }
    for role, config in (
        ("researcher", researcher_config(addresses)),
        ("health", health_config(addresses, plan.places)),
        ("census", census_config(addresses, plan.census_people)),
        ("auditor", auditor_config()),
    ):
        limits = {"limits": dict(plan.census_limits)} if role == "census" and plan.census_limits else {}
        _write_config(directory / role, config | limits)
    linkage = secret_text("linkage", os.urandom(32)).encode("ascii") + b"\n"
    for role in ("health", "census"):
        replace_file(directory / role / "keys" / "linkage.key", linkage, mode=0o600)
    oversight = OpeningKey.generate(os.urandom)
    replace_file(
        directory / "auditor" / "keys" / "oversight.key", f"{oversight.to_text()}\n".encode("ascii"), mode=0o600
    )
    public = f"{oversight.sealing_key.to_text()}\n".encode("ascii")
    replace_file(directory / "census" / "keys" / "oversight.pub", public)

    researcher = ResearcherHome(directory / "researcher")
    health, census = HealthHome(directory / "health"), CensusHome(directory / "census")
    now_ms = system_clock()
    researcher_card = researcher.keyring.first_card(Identity("university", "researcher", RESEARCHER_ID), "", now_ms)
    health_card = health.keyring.first_card(Identity("health-agency", "health", "node"), HEALTH_ORIGIN, now_ms)
    census_card = census.keyring.first_card(Identity("census-agency", "census", "node"), CENSUS_ORIGIN, now_ms)

    researcher.publish(researcher_card.signed)
    for home, own, dictionary in ((health, health_card, HEALTH_FILE), (census, census_card, CENSUS_FILE)):
        root = own.verify_keys(Purpose.IDENTITY, 0)[0]
        replace_file(home.home.path / "keys" / "identity.pub", f"{root.to_text()}\n".encode("ascii"))
        home.create(own.signed)
        replace_file(home.home.path / DICTIONARY_NAME, dictionary.read_bytes(), mode=0o644)
        home.adopt_dictionary(read_dictionary(home.home.path / DICTIONARY_NAME))
    for card in (health_card, census_card):
        researcher.trust.put(card)
    census.register(health_card)
    census.register(researcher_card, projects=[PROJECT], inbox=addresses["researcher"])
    health.register(census_card)
    health.register(researcher_card, projects=[PROJECT])
    for card in (researcher_card, health_card, census_card):
        name = peer_name(card.card.identity)
        replace_file(directory / "auditor" / "trust" / f"{name}.card", card.signed.to_bytes() + b"\n")


def researcher_config(addresses: dict[str, str]) -> dict[str, Any]:
    """config.toml of the researcher home."""
    return {
        "role": "researcher",
        "researcher_id": RESEARCHER_ID,
        "organisation": "university",
        "project": PROJECT,
        "address": addresses["researcher"],
        "health": {"address": addresses["health"]},
        "census": {"address": addresses["census"]},
    }


def health_config(addresses: dict[str, str], places: int) -> dict[str, Any]:
    """config.toml of the health home."""
    return {
        "role": "health",
        "organisation": "health-agency",
        "origin": HEALTH_ORIGIN,
        "places": places,
        "address": addresses["health"],
        "census": {"address": addresses["census"], "organisation": "census-agency"},
    }


def census_config(addresses: dict[str, str], people: int) -> dict[str, Any]:
    """config.toml of the census home."""
    return {
        "role": "census",
        "organisation": "census-agency",
        "origin": CENSUS_ORIGIN,
        "people": people,
        "address": addresses["census"],
        "witness_store": f"../{_WITNESS}",
        "keys": {"oversight": "file:keys/oversight.pub"},
    }


def auditor_config() -> dict[str, Any]:
    """config.toml of the auditor's home, who calls nobody."""
    return {"role": "auditor", "keys": {"oversight": "file:keys/oversight.key"}}


def _write_config(home: Path, config: dict[str, Any]) -> None:
    replace_file(home / "config.toml", tomli_w.dumps(config).encode())


def _free_ports(count: int) -> list[int]:
    """Ports that are free now. Held together while they are picked, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()
