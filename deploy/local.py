"""`init`: one folder with four homes, each holding its own keys and nothing that its role may not hold.

Each home is made by what its owner's `create` is made of. In a real deployment each organisation does that on its own machine,
and what travels between them are the cards that `_make_homes` hands round, the linkage key, and the public oversight key.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from broker_common.audit.home import create_home as create_auditor_home
from broker_common.audit.home import trust
from broker_common.crypto.id_forms import POSTAL_ADDRESS
from broker_common.privacy.delays import declared_for, least_forward_delay_ms
from broker_common.privacy.policy import Accounting, Policy, Subject, verify_policy
from broker_common.storage.creation import verify_empty
from broker_common.storage.dictionary.file import dictionary_toml
from broker_common.values import Linkage
from census_node.config import CensusConfig, LimitConfig
from census_node.config import KeyConfig as CensusKeys
from census_node.creating import OVERSIGHT_REFERENCE, USUAL_RESEARCHER_ANSWERS, FirstPolicy
from census_node.creating import create_home as create_census_home
from deploy.filling import Filling, Report, fill
from deploy.synthetic.dictionaries import CENSUS_DICTIONARY, CENSUS_FILE, HEALTH_DICTIONARY, HEALTH_FILE
from deploy.synthetic.linkage import census_size
from health_node.config import CensusPeer, HealthConfig
from health_node.creating import create_home as create_health_home
from researcher_node.assembly import ResearcherHome
from researcher_node.config import AgencyPeer, ResearcherConfig

HOMES = ("researcher", "health", "census", "auditor")
# The census agency's witness store: on one machine only another folder, so that it has a place of its own at least.
_WITNESS = "witness"
RESEARCHER_ID = "researcher-1"
PROJECT = "official-languages"
RELEASE = "2011"
CENSUS_ORIGIN = "census.example/tripartite"
HEALTH_ORIGIN = "health.example/tripartite"


@dataclass(frozen=True, slots=True)
class Plan:
    """The request to `init`."""

    population: int
    seed: int
    accounting: Accounting
    max_belief: str
    # None, here and below: what is usual for so many people.
    release_tick_ms: int | None = None
    forward_delay_ms: int | None = None
    subject: Subject = "person"
    linkage: Linkage = "complementary"
    researcher_answers: int = USUAL_RESEARCHER_ANSWERS
    # Settings under [limits] of the census node's config.toml.
    census_limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def places(self) -> int:
        """The health agency's declared places."""
        return declared_for(self.population)

    @property
    def census_people(self) -> int:
        """The census agency's declared people."""
        return declared_for(census_size(self.population))

    @property
    def least_forward_delay_ms(self) -> int:
        """The minimum of the forward delay."""
        return least_forward_delay_ms(self.places)

    def policy(self) -> Policy:
        """The census agency's policy.

        Raises:
            InvalidRequestError: INVALID_VALUE, the limit admits no scale, or the subject goes with nothing else.
        """
        policy = FirstPolicy(
            accounting=self.accounting,
            max_belief=self.max_belief,
            people=self.census_people,
            places=self.places,
            subject=self.subject,
            linkage=self.linkage,
            release_tick_ms=self.release_tick_ms,
            forward_delay_ms=self.forward_delay_ms,
            researcher_answers=self.researcher_answers,
        ).policy()
        verify_policy(policy)
        return policy

    @contextmanager
    def dictionaries(self) -> Iterator[tuple[Path, Path]]:
        """The files of the census agency's and the health agency's dictionaries: Ontario's, or the same with another linkage."""
        if self.linkage == "complementary":
            yield CENSUS_FILE, HEALTH_FILE
            return
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "census.toml", Path(folder) / "health.toml"
            for file, usual in zip(files, (CENSUS_DICTIONARY, HEALTH_DICTIONARY), strict=True):
                id_form = POSTAL_ADDRESS if self.linkage == "household" else usual.id_form
                linked = replace(usual, id_form=id_form, linkage=self.linkage)
                file.write_text(dictionary_toml(linked), encoding="utf-8")
            yield files


def lay_out(directory: Path, plan: Plan, report: Report) -> Policy:
    """Make the deployment in `directory`, which is new or empty; on failure nothing of it is left.

    Raises:
        InvalidRequestError: HOME_INVALID, the directory holds something; INVALID_VALUE.
    """
    policy = plan.policy()
    directory.mkdir(parents=True, exist_ok=True)
    verify_empty(directory)
    try:
        with plan.dictionaries() as dictionaries:
            _make_homes(directory, plan, policy, dictionaries)
        fill(Filling(directory, plan.population, plan.seed, RELEASE, plan.linkage), report)
    except BaseException:
        for name in (*HOMES, _WITNESS):
            shutil.rmtree(directory / name, ignore_errors=True)
        raise
    return policy


def _make_homes(directory: Path, plan: Plan, policy: Policy, dictionaries: tuple[Path, Path]) -> None:
    """Make every home as its owner would, and register the cards where they must be known."""
    ports = _free_ports(3)
    addresses = {
        role: f"127.0.0.1:{port}" for role, port in zip(("researcher", "health", "census"), ports, strict=True)
    }
    oversight = create_auditor_home(directory / "auditor")
    census = create_census_home(
        directory / "census",
        census_config(addresses, plan.census_people, plan.census_limits),
        policy,
        oversight=oversight,
        linkage_file=None,
        dictionary=dictionaries[0],
    )
    health = create_health_home(
        directory / "health",
        health_config(addresses, plan.places),
        linkage_file=Path(census.linkage_keys.place),
        dictionary=dictionaries[1],
    )
    researcher = ResearcherHome.create(directory / "researcher", researcher_config(addresses))

    researcher_card, health_card, census_card = researcher.own_card(), health.own_card(), census.own_card()
    for card in (health_card, census_card):
        researcher.trust.put(card)
    census.register(health_card)
    census.register(researcher_card, projects=[PROJECT], inbox=addresses["researcher"])
    health.register(census_card)
    health.register(researcher_card, projects=[PROJECT])
    for card in (researcher_card, health_card, census_card):
        trust(directory / "auditor", card)


def researcher_config(addresses: Mapping[str, str]) -> ResearcherConfig:
    """config.toml of the researcher home."""
    return ResearcherConfig(
        role="researcher",
        researcher_id=RESEARCHER_ID,
        organisation="university",
        project=PROJECT,
        address=addresses["researcher"],
        health=AgencyPeer(address=addresses["health"]),
        census=AgencyPeer(address=addresses["census"]),
    )


def health_config(addresses: Mapping[str, str], places: int) -> HealthConfig:
    """config.toml of the health home."""
    return HealthConfig(
        role="health",
        organisation="health-agency",
        origin=HEALTH_ORIGIN,
        places=places,
        address=addresses["health"],
        census=CensusPeer(address=addresses["census"], organisation="census-agency"),
    )


def census_config(addresses: Mapping[str, str], people: int, limits: Mapping[str, int]) -> CensusConfig:
    """config.toml of the census home."""
    return CensusConfig(
        role="census",
        organisation="census-agency",
        origin=CENSUS_ORIGIN,
        people=people,
        address=addresses["census"],
        witness_store=f"../{_WITNESS}",
        keys=CensusKeys(oversight=OVERSIGHT_REFERENCE),
        limits=LimitConfig(**limits),
    )


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
