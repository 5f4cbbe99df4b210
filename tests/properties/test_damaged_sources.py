"""Random damage to a source: it loads or it is refused, and nothing else ever happens, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.parquet import HEALTH_TYPES, parquet_from_csv
from fakes.registries import made_names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import InvalidRequestError
from broker_common.storage.source.files import open_source
from broker_common.storage.source.plan import LINKED_ID, PlainPlan
from broker_common.storage.source.rows import published
from census_node.registry.loading import id_columns, read_registry
from deploy.synthetic.population import write_sources
from health_node.people.loading import _Incoming
from health_node.people.tables import Declared

LINKAGE = LinkageChain([LinkageKey(bytes(range(32)))])
POPULATION = 60
WRITINGS = (
    "",
    ", compression uncompressed, row_group_size 16",
    ", compression zstd, parquet_version v2",
    ", compression gzip, parquet_version v2, dictionary_size_limit 1",
)
FOOTER_SHARE = 0.4
Damage: TypeAlias = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The same people at each agency, in every kind of file."""
    folder = tmp_path_factory.mktemp("whole")
    write_sources(folder / "health.csv", folder / "census.csv", population=POPULATION, seed=5)
    made: dict[str, list[Path]] = {}
    for role, types in (("health", HEALTH_TYPES), ("census", None)):
        csv = folder / f"{role}.csv"
        made[role] = [csv]
        for options in WRITINGS:
            for kinds in (types, None):
                path = folder / f"{role}-{len(made[role])}"
                made[role].append(parquet_from_csv(csv, path, kinds, options))
    return made


@st.composite
def places(draw: st.DrawFn) -> float:
    """Somewhere in a file: anywhere, or near the end, where Parquet keeps all that tells how to read the rest."""
    place = draw(st.floats(0, 1, exclude_max=True))
    return place if draw(st.booleans()) else 1 - place * FOOTER_SHARE


def flipped(place: float, bit: int) -> Damage:
    """One bit is another."""

    def damage(content: bytes) -> bytes:
        at = min(int(place * len(content)), len(content) - 1)
        # Other damage may have left nothing to flip.
        return content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :] if content else content

    return damage


def replaced(place: float, length: int, by: bytes) -> Damage:
    """Some bytes are gone and others in their place."""

    def damage(content: bytes) -> bytes:
        at = int(place * len(content))
        return content[:at] + by + content[at + length :]

    return damage


def without_end(place: float) -> Damage:
    """The writing stopped."""
    return lambda content: content[: int(place * len(content))]


def without_middle(place: float, length: int) -> Damage:
    """A hole, with the last bytes where they were: a footer that promises more than there is."""
    return lambda content: content[: int(place * len(content))] + content[int(place * len(content)) + length :]


NASTY = st.sampled_from([b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\0" * 64, b"\n", b'"', b"PAR1", b"\xfc"])
damages = st.lists(
    st.builds(flipped, places(), st.integers(0, 7))
    | st.builds(replaced, places(), st.integers(0, 16), NASTY | st.binary(max_size=16))
    | st.builds(without_end, places())
    | st.builds(without_middle, places(), st.integers(1, 500)),
    min_size=1,
    max_size=4,
)


def load_health(path: Path) -> int:
    """How many people are read, without the store, which is not what is damaged."""
    incoming = _Incoming(LINKAGE, HEALTH_DICTIONARY)
    for chunk in open_source(path, published((LINKED_ID,), HEALTH_DICTIONARY.columns)).chunks(incoming.rejected):
        incoming.add(chunk)
    return incoming.people(Declared(POPULATION)).size


def load_census(path: Path) -> int:
    """How many people are read."""
    registry, _, _ = read_registry(
        PlainPlan(path, id_columns(CENSUS_DICTIONARY)),
        "load",
        LINKAGE,
        made_names(0, 0),
        dictionary=CENSUS_DICTIONARY,
        max_rejected=POPULATION,
    )
    return registry.size


@pytest.mark.parametrize(("role", "load"), [("health", load_health), ("census", load_census)])
@settings(max_examples=160, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(kind=st.integers(0, 2 * len(WRITINGS)), damages=damages)
def test_damaged_source_is_loaded_or_refused(
    sources: dict[str, list[Path]],
    tmp_path_factory: pytest.TempPathFactory,
    role: str,
    load: Callable[[Path], int],
    kind: int,
    damages: list[Damage],
) -> None:
    """No damage ends in another error or in a crash of the process. `make fuzz TARGET=parquet_source` looks for more."""
    content = sources[role][kind].read_bytes()
    for damage in damages:
        content = damage(content)
    path = tmp_path_factory.getbasetemp() / f"damaged-{role}"
    path.write_bytes(content)
    try:
        outcome = f"{load(path)} people"
    except InvalidRequestError as error:
        outcome = error.code
    assert outcome == "LOAD_REFUSED" or outcome.endswith(" people")
