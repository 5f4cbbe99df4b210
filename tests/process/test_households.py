"""Two agencies that link by address: what is counted and charged, against people put side by side from the two sources."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.deployment import Deployment, make, run_here

from broker_common.crypto.sealing import UnsealingKey
from broker_common.privacy.accounting import price
from broker_common.privacy.opening import OPENING_SUFFIX, unseal_opening
from census_node.assembly import CensusHome

pytestmark = pytest.mark.process

# A large household passes its cap with the first answer at scale 2, and smaller ones with those after it.
ASKED: tuple[tuple[str, Callable[[dict[str, str]], bool], int], ...] = (
    ("age >= 65", lambda person: int(person["age"]) >= 65, 2),
    ("sex = 'female' and age < 10", lambda person: person["sex"] == "female" and int(person["age"]) < 10, 3),
    ("procedure = 'angioplasty'", lambda person: "angioplasty" in person["procedure"].split(";"), 5),
    ("age >= 0", bool, 2),
    ("age >= 40", lambda person: int(person["age"]) >= 40, 4),
)
_ADDRESS = re.compile(r"(\d+) (\w+) .*?([A-Z]\d[A-Z] ?\d[A-Z]\d)")


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A deployment by address that serves; of its own for each test, since charges and policies stay."""
    made = make(tmp_path / "d", "--linkage", "household", population=3000, accounting="per_person")
    with made.nodes():
        yield made


def address_of(text: str) -> tuple[str, str, str]:
    """House number, street and postal code, as a person reads them in either spelling."""
    found = _ADDRESS.fullmatch(text.upper()) or _ADDRESS.match(text.upper())
    assert found is not None
    return found[1], found[2], found[3].replace(" ", "")


def rows(deployment: Deployment, role: str) -> list[dict[str, str]]:
    """Those of a source that have an address."""
    with (deployment.home(role) / "people.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["health_card"]]


def test_everybody_at_an_address_where_somebody_matches_is_counted_until_their_household_is_spent(
    deployment: Deployment, tmp_path: Path
) -> None:
    """Counts before noise, dropped households and charges are those of a plain loop over both sources; the auditor agrees."""
    matching, speaking = defaultdict(list), defaultdict(list)
    for person in rows(deployment, "health"):
        matching[address_of(person["health_card"])].append(person)
    for person in rows(deployment, "census"):
        speaking[address_of(person["health_card"])].append(person["mother_tongue"])
    assert max(map(len, speaking.values())) > 3
    policy = CensusHome(deployment.home("census")).read(lambda state: state.policy)
    assert policy is not None
    charged: Counter[tuple[str, str, str]] = Counter()
    key = UnsealingKey.parse_text((deployment.home("auditor") / "keys" / "oversight.key").read_text().strip())
    dropped = 0
    for where, matches, scale in ASKED:
        expected = [0, 0]
        for address, people in matching.items():
            members = speaking.get(address, [])
            after = charged[address] + price(scale) * len(members)
            if not members or not any(map(matches, people)):
                continue
            if after > policy.cap:
                dropped += 1
                continue
            charged[address] = after
            expected[0] += members.count("French")
            expected[1] += len(members) - members.count("French")
        answer = deployment.ask(where, "mother_tongue = 'French'", "--of", "all", "--scale", str(scale)).result
        assert answer["linked"] == {"linkage": "household", "declared_percent": None}
        ticket = deployment.ticket_of(answer["query_id"])
        sealed = (deployment.home("census") / "openings" / f"{ticket}{OPENING_SUFFIX}").read_bytes()
        assert list(unseal_opening(sealed, ticket, key).counts) == expected
    assert dropped > 20
    deployment.wait_until_closed()
    status = deployment.charged_status()
    assert status["people_charged"] == sum(1 for units in charged.values() if units)
    assert status["worst_charged"] == max(charged.values())
    handed_in = tmp_path / "handed_in"
    for role in ("census", "health", "researcher"):
        assert (
            run_here("audit", "export", "--home", deployment.home(role), "--to", handed_in / role, "--json").code == 0
        )
    census = deployment.home("census")
    words = ("--on-site", census, "--openings", census / "openings", "--json")
    report = run_here("audit", "replay", handed_in, "--home", deployment.home("auditor"), *words).result
    assert (report["verified"], report["problems"]) == (True, [])
    assert report["on_site"]["charges_checked"] == len(ASKED)
    assert report["on_site"]["worst_charged"] == max(charged.values())


def test_a_researcher_is_told_how_households_are_counted(deployment: Deployment) -> None:
    """In the quote and beside the answer."""
    quote = deployment.json("researcher", "quote", "--count", "all")
    assert quote["linked"] == {"linkage": "household", "declared_percent": None}
    shown = deployment.run("researcher", "quote", "--count", "all").stdout
    assert "only people linked by address, all of them where somebody matches" in " ".join(shown.split())


def test_a_declared_linked_share_stands_beside_every_answer(deployment: Deployment) -> None:
    """From the policy that the census agency adopts to what a researcher is shown; no node computes it."""
    deployment.order_policy(declared_linked_percent=93)
    answer = deployment.ask("age >= 90", "all", "--scale", "50").result
    assert answer["linked"] == {"linkage": "household", "declared_percent": 93}
    shown = " ".join(deployment.run("researcher", "answers", answer["query_id"]).stdout.split())
    assert "all of them where somebody matches: 93 % of the census, as its agency declares; missed links bias" in shown


def test_another_linkage_and_another_form_of_ids_are_refused_at_a_load(deployment: Deployment) -> None:
    """The operator is told which one is in force; nothing changes."""
    home = deployment.home("census")
    usual = (home / "dictionary.toml").read_text("utf-8")
    other_linkage = usual.replace('linkage = "household"', 'linkage = "complementary"')
    other_form = usual.replace('id_form = "postal_address"', 'id_form = "text"')
    for version, changed, named in (
        (2, other_linkage, "its dictionary has linkage complementary, and the policy in force has linkage household"),
        (3, other_form, "ids of the form text, and those of the load in force are of the form postal_address"),
    ):
        file = home.parent / "changed.toml"
        file.write_text(changed.replace("version = 1\n", f"version = {version}\n", 1), "utf-8")
        adopted = run_here("dictionary", "adopt", file, "--home", home, "--json")
        assert adopted.code == 0, adopted.stdout
        refused = run_here("census", "load", home / "people.csv", "--home", home, "--json")
        assert (refused.code, refused.error["code"]) == (3, "LOAD_REFUSED")
        assert named in refused.error["text"]
