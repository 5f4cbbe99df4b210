"""Folders of the lab: made for their owner alone, and never changed if somebody else made them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.invoking import invoke
from unit.lab.evaluations import evaluation
from unit.lab.farms import write_farms

from broker_common.errors import InvalidRequestError
from broker_common.language import language
from policy_lab.cli import lab
from policy_lab.document import stored
from policy_lab.document.model import Document
from policy_lab.standing import Standing, make_private_folder


def mode(path: Path) -> int:
    """Who may open it."""
    return path.stat().st_mode & 0o777


@pytest.fixture(name="lax_umask")
def umask_of_most_users() -> Iterator[None]:
    """New folders would be everybody's."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_only_its_holder_may_see_is_never_assessed() -> None:
    """A table for release is among it until its holder decides."""
    internal = {Standing.INTERNAL, Standing.RELEASE}
    assert {each for each in Standing if each.is_internal} == internal
    assert {each for each in Standing if not each.may_be_assessed} == internal
    assert {each for each in Standing if each.mark.startswith("INTERNAL")} == internal


@pytest.mark.usefixtures("lax_umask")
def test_folders_that_are_made_are_their_owners_alone(tmp_path: Path) -> None:
    """Those above as well; a second command writes into the same folder."""
    inner = tmp_path / "results" / "one"
    for _ in range(2):
        assert make_private_folder(inner) == inner
        assert mode(inner) == mode(inner.parent) == 0o700


@pytest.mark.parametrize("others", [0o755, 0o750, 0o701, 0o722])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_that_others_may_open_is_refused_and_left_as_it_is(tmp_path: Path, others: int, is_link: bool) -> None:
    """Nobody is locked out of a folder that the lab did not make, also through a link."""
    shared = tmp_path / "team"
    shared.mkdir()
    shared.chmod(others)
    asked = tmp_path / "link" if is_link else shared
    if is_link:
        asked.symlink_to(shared)
    with pytest.raises(InvalidRequestError) as refused:
        make_private_folder(asked)
    assert "others may open" in refused.value.text
    assert "Name a folder that is not there yet" in refused.value.hint
    assert f"chmod 700 {asked}" in refused.value.hint
    assert mode(shared) == others
    assert not list(shared.iterdir())


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may open it."""
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(InvalidRequestError, match="others may open"):
        make_private_folder(tmp_path)


def test_a_document_is_not_written_into_a_folder_of_others(tmp_path: Path) -> None:
    """Unless no data file was read: such a document may be handed on, and goes where its user wants it."""
    shared = tmp_path / "team"
    shared.mkdir()
    shared.chmod(0o755)
    with pytest.raises(InvalidRequestError, match="others may open"):
        stored.write(Document("x", "x", Standing.SYNTHETIC, "x", []), shared, language("en"))
    assert not list(shared.iterdir())
    stored.write(Document("x", "x", Standing.NO_DATA, "x", []), shared, language("en"))
    assert mode(shared) == 0o755


@pytest.mark.parametrize(
    "words",
    [
        "evaluate run.yaml",
        "table farms.csv --rows status --columns kind --value rice --statistic total --epsilon 1 --rule bootstrap",
        "sensitivity people.csv --generated people.csv --column height --samples 2 --repetitions 5",
        "assessment --without-attacks --language en",
    ],
)
def test_every_command_leaves_a_folder_of_others_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """`--out .` in a project's folder locks no colleague out, and writes nothing there."""
    evaluation(tmp_path, rows=400)
    write_farms(tmp_path / "farms.csv")
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    before = set(tmp_path.iterdir())
    error = invoke(lab, [*words.split(), "--out", "."], standalone_mode=False).exception
    assert isinstance(error, InvalidRequestError), error
    assert "others may open" in error.text
    assert mode(tmp_path) == 0o755
    assert set(tmp_path.iterdir()) == before
