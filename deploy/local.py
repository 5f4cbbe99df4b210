"""`init`: one folder with four homes, each holding its own keys and nothing that its role may not hold.

Keys are made here because this machine plays every part. In a real deployment each organisation makes its own, and what
travels between them are the public halves and certificates that `_introduce` hands round, and the linkage key.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from broker_common.crypto.certificates import Identity, make_certificate
from broker_common.crypto.sealing import OpeningKey
from broker_common.crypto.secret_text import secret_text
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import cap_units, default_scales, param_of, parse_max_belief
from broker_common.privacy.policy import Policy
from broker_common.storage.clock import system_clock
from broker_common.storage.durable import replace_file
from census_node.opening import CensusHome
from census_node.proposals import make_proposal
from deploy.synthetic.population import write_sources
from health_node.opening import HealthHome

__all__ = ["Plan", "census_config", "health_config", "lay_out", "researcher_config"]

HOMES = ("researcher", "health", "census", "auditor")
RESEARCHER_ID = "researcher-1"
PROJECT = "official-languages"
RELEASE = "2011"
CENSUS_ORIGIN = "census.example/tripartite"
HEALTH_ORIGIN = "health.example/tripartite"
_CERTIFICATE_DAYS = 365
# Delays must cover a sample of the whole population; measured here at well under 100 ms for each million people.
_LEAST_DELAY_MS = 250
_DELAY_MS_PER_MILLION = 200
_MAX_SAMPLE = 20_000_000
_DAY_MS = 86_400_000

Report = Callable[[str], Callable[[int, int], None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What `init` was asked for."""

    population: int
    seed: int
    max_belief: str
    release_tick_ms: int
    delay_ms: int | None = None

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
        delay_ms = max(_LEAST_DELAY_MS, _DELAY_MS_PER_MILLION * -(-self.population // 1_000_000))
        if self.delay_ms is not None:
            delay_ms = self.delay_ms
        return Policy(
            accounting="strict",
            max_belief=self.max_belief,
            scales=scales,
            forward_delay_ms=delay_ms,
            answer_delay_ms=delay_ms,
            release_tick_ms=self.release_tick_ms,
            quote_lifetime_ms=10 * 60_000,
            open_quotes=64,
            max_sample=_MAX_SAMPLE,
            answer_retention_ms=90 * _DAY_MS,
        )


def lay_out(directory: Path, plan: Plan, report: Report) -> Policy:
    """Make the deployment in `directory`, which is new or empty; on failure nothing of it is left.

    Raises:
        InvalidRequestError: HOME_INVALID, the directory holds something; INVALID_VALUE.
    """
    policy = plan.policy()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise InvalidRequestError("HOME_INVALID", home=str(directory), role="new", problem="the folder is not empty")
    try:
        _make_homes(directory)
        policy_key = _introduce(directory)
        _fill(directory, plan, policy, policy_key, report)
    except BaseException:
        for name in HOMES:
            shutil.rmtree(directory / name, ignore_errors=True)
        raise
    return policy


def _make_homes(directory: Path) -> None:
    for name in HOMES:
        for folder in (directory / name, directory / name / "keys", directory / name / "trust"):
            folder.mkdir(mode=0o700)


def _introduce(directory: Path) -> SigningKey:
    """Give every home its keys and its peers' public keys; gives back the policy key, for adopting the first policy."""
    researcher, health, census, auditor = (_Keys(directory / name) for name in HOMES)
    ports = _free_ports(3)
    addresses = {
        role: f"127.0.0.1:{port}" for role, port in zip(("researcher", "health", "census"), ports, strict=True)
    }

    census_tls = census.make_tls(Identity("census-agency", "census", "node"))
    health_tls = health.make_tls(Identity("health-agency", "health", "node"))
    researcher_tls = researcher.make_tls(Identity("university", "researcher", RESEARCHER_ID))

    ticket = researcher.make_signing("ticket", Purpose.TICKET)
    manifest = health.make_signing("manifest", Purpose.MANIFEST)
    health_log = health.make_signing("log", Purpose.LOG)
    census_log = census.make_signing("log", Purpose.LOG)
    answer = census.make_signing("answer", Purpose.ANSWER)
    policy = census.make_signing("policy", Purpose.POLICY)
    operator = census.make_signing("operator", Purpose.OPERATOR)
    sample = OpeningKey.generate(os.urandom)
    census.write("keys/sample.key", sample.to_text(), secret=True)
    health.write("keys/sampling.key", secret_text("sampling", os.urandom(32)), secret=True)
    linkage = secret_text("linkage", os.urandom(32))
    for home in (health, census):
        home.write("keys/linkage.key", linkage, secret=True)

    census.write("keys/policy.pub", policy.verify_key.to_text())
    census.write("keys/operator.pub", operator.verify_key.to_text())
    for home in (health, researcher):
        home.write("trust/census.crt", census_tls)
        home.write("trust/census-policy.pub", policy.verify_key.to_text())
        home.write("trust/census-log.pub", census_log.verify_key.to_text())
    health.write("trust/census-sample.pub", sample.sealing_key.to_text())
    researcher.write("trust/census-answer.pub", answer.verify_key.to_text())
    researcher.write("trust/health.crt", health_tls)
    census.write("trust/health.crt", health_tls)
    census.write("trust/health-manifest.pub", manifest.verify_key.to_text())
    for home in (health, census):
        home.write(f"trust/{RESEARCHER_ID}.crt", researcher_tls)
        home.write(f"trust/{RESEARCHER_ID}-ticket.pub", ticket.verify_key.to_text())
    for name, key in (
        ("census-log", census_log),
        ("census-policy", policy),
        ("census-operator", operator),
        ("census-answer", answer),
        ("health-log", health_log),
        ("health-manifest", manifest),
        (f"{RESEARCHER_ID}-ticket", ticket),
    ):
        auditor.write(f"trust/{name}.pub", key.verify_key.to_text())

    researcher.write_config(researcher_config(addresses))
    health.write_config(health_config(addresses))
    census.write_config(census_config(addresses))
    return policy


def _fill(directory: Path, plan: Plan, policy: Policy, policy_key: SigningKey, report: Report) -> None:
    sources = {role: directory / role / "people.csv" for role in ("health", "census")}
    write_sources(
        sources["health"],
        sources["census"],
        population=plan.population,
        seed=plan.seed,
        progress=report("Making up people"),
    )
    health, census = HealthHome(directory / "health"), CensusHome(directory / "census")
    for path in sources.values():
        path.chmod(0o600)
    health.open_journal(create=True).close()
    census.open_journal(create=True).close()
    census.adopt(make_proposal(policy, policy_key))
    health.load(sources["health"], RELEASE, progress=report("Loading health data"))
    census.load(sources["census"], RELEASE, progress=report("Loading the census registry"))


def researcher_config(addresses: dict[str, str]) -> dict[str, Any]:
    """config.toml of the researcher home."""
    return {
        "researcher_id": RESEARCHER_ID,
        "project": PROJECT,
        "address": addresses["researcher"],
        "health": {"address": addresses["health"], "certificate": "file:trust/health.crt"},
        "census": {
            "address": addresses["census"],
            "certificate": "file:trust/census.crt",
            "answer_key": "file:trust/census-answer.pub",
            "policy_key": "file:trust/census-policy.pub",
            "log_key": "file:trust/census-log.pub",
            "origin": CENSUS_ORIGIN,
        },
    }


def health_config(addresses: dict[str, str]) -> dict[str, Any]:
    """config.toml of the health home."""
    return {
        "organisation": "health-agency",
        "origin": HEALTH_ORIGIN,
        "address": addresses["health"],
        "census": {
            "address": addresses["census"],
            "certificate": "file:trust/census.crt",
            "sample_key": "file:trust/census-sample.pub",
            "policy_key": "file:trust/census-policy.pub",
            "log_key": "file:trust/census-log.pub",
            "origin": CENSUS_ORIGIN,
        },
        "researchers": {RESEARCHER_ID: _researcher_peer()},
    }


def census_config(addresses: dict[str, str]) -> dict[str, Any]:
    """config.toml of the census home."""
    return {
        "organisation": "census-agency",
        "origin": CENSUS_ORIGIN,
        "address": addresses["census"],
        "health": {
            "health-agency": {
                "certificate": "file:trust/health.crt",
                "manifest_key": "file:trust/health-manifest.pub",
            }
        },
        "researchers": {RESEARCHER_ID: {**_researcher_peer(), "inbox": addresses["researcher"]}},
    }


def _researcher_peer() -> dict[str, Any]:
    return {
        "certificate": f"file:trust/{RESEARCHER_ID}.crt",
        "ticket_key": f"file:trust/{RESEARCHER_ID}-ticket.pub",
        "projects": [PROJECT],
    }


class _Keys:
    """Writes the files of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def write(self, name: str, text: str | bytes, *, secret: bool = False) -> None:
        content = text if isinstance(text, bytes) else f"{text}\n".encode()
        replace_file(self._home / name, content, mode=0o600 if secret else 0o644)

    def write_config(self, config: dict[str, Any]) -> None:
        self.write("config.toml", tomli_w.dumps(config).rstrip("\n"))

    def make_signing(self, name: str, purpose: Purpose) -> SigningKey:
        key = SigningKey.generate(purpose, os.urandom)
        self.write(f"keys/{name}.key", key.to_text(), secret=True)
        return key

    def make_tls(self, identity: Identity) -> bytes:
        """Key and certificate for this home; gives the certificate, for the peers."""
        made = make_certificate(identity, now_ms=system_clock(), days=_CERTIFICATE_DAYS)
        self.write("keys/tls.key", made.private_key, secret=True)
        self.write("keys/tls.crt", made.certificate)
        return made.certificate


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
