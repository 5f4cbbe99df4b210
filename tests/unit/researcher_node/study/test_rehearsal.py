"""The truth of a rehearsal, counted by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY, STAYS

from researcher_node.study.design import design
from researcher_node.study.file import parse_study_file
from researcher_node.study.rehearsal import true_counts

HEALTH = """\
health_card,age,sex,procedure,last_admission_date
1,70,female,angioplasty;dialysis,2010-06-01
2,70,female,,
3,30,male,dialysis,2009-12-31
4,,male,angioplasty,2011-01-01
5,64,,angioplasty,2010-01-01
6,80,female,angioplasty,2010-01-01
7,70,male,angioplasty,2010-01-01
"""
# Card 6 is nobody's in the census; cards 1 and 7 are one person's; 5 has no mother tongue.
CENSUS = """\
health_card,person_id,mother_tongue
1,a,French
2,b,English
3,c,French
4,d,Other
5,e,
7,a,French
,f,French
"""


def counted(
    tmp_path: Path, by: str, count: str = "mother_tongue = 'French'", of: str = "of: all\n"
) -> list[tuple[int, ...]]:
    """The truth for each group."""
    for role, rows in (("health", HEALTH), ("census", CENSUS)):
        (tmp_path / role).mkdir(exist_ok=True)
        (tmp_path / role / "people.csv").write_text(rows)
    file = parse_study_file(f"by:\n  group:\n{by}count: {count}\n{of}", "s.yaml")
    study = design(file, HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")
    return true_counts(study, tmp_path, HEALTH_DICTIONARY)


def test_everybody_at_an_address_counts_where_somebody_matches(tmp_path: Path) -> None:
    """Each once, whichever of them matches, and however either agency spells the address."""
    (tmp_path / "health").mkdir()
    (tmp_path / "census").mkdir()
    (tmp_path / "health" / "people.csv").write_text(
        "health_card,age\n"
        '"1 Elm Street, Bath ON K0H 1G0",70\n"1 Elm St, Bath ON K0H 1G0",66\n"2 Elm St, Bath ON K0H 1G0",20\n'
    )
    (tmp_path / "census" / "people.csv").write_text(
        "health_card,person_id,mother_tongue\n"
        "1 ELM ST BATH ONTARIO K0H1G0,a,French\n1 ELM ST BATH ONTARIO K0H1G0,b,English\n2 ELM ST BATH K0H1G0,c,French\n"
    )
    file = parse_study_file(
        "by:\n  group:\n    old: age >= 65\n    young: age < 65\ncount: mother_tongue = 'French'\nof: all\n", "s.yaml"
    )
    health = replace(HEALTH_DICTIONARY, id_form="postal_address", linkage="household")
    study = design(file, health, CENSUS_DICTIONARY, "usual")
    assert true_counts(study, tmp_path, health) == [(1, 1), (1, 0)]


def test_each_kind_of_condition(tmp_path: Path) -> None:
    """Somebody without a value makes every comparison false; several values are each looked at; one person is counted once."""
    conditions = {
        "age >= 64": (1, 2),
        "age < 64": (1, 0),
        "not (age >= 64)": (1, 1),
        "age is null": (0, 1),
        "procedure = 'angioplasty'": (1, 2),
        "procedure = 'dialysis'": (2, 0),
        "procedure <> 'angioplasty'": (1, 1),
        "sex = 'male' or age = 64": (2, 2),
        "last_admission_date between '2010-01-01' and '2010-12-31'": (1, 1),
        "last_admission_date < '2010-01-01' and sex in ('male', 'female')": (1, 0),
    }
    by = "".join(f'    g{number}: "{condition}"\n' for number, condition in enumerate(conditions))
    assert dict(zip(conditions, counted(tmp_path, by), strict=True)) == conditions


def test_cells_that_are_not_the_rest(tmp_path: Path) -> None:
    """Without the rest nobody else is counted; `all` counts every linked person."""
    by = "    old: age >= 64\n    young: age < 64\n"
    assert counted(tmp_path, by, of="") == [(1,), (1,)]
    assert counted(tmp_path, by, count="[\"mother_tongue = 'French'\", \"mother_tongue = 'English'\"]", of="") == [
        (1, 1),
        (1, 0),
    ]
    assert counted(tmp_path, by, count="all", of="") == [(3,), (1,)]


def test_hierarchies_and_events(tmp_path: Path) -> None:
    """Events are those of the card; one without a value makes a comparison false, and nobody is counted twice for two."""
    people = {
        "health/people.csv": "health_card,age,sex,diagnosis,day\n1,70,female,I21.0;J45,\n2,50,,I42,\n3,30,male,,\n",
        "health/hospitalisation.csv": "health_card,cause,admitted,days,day\n1,I21,2005-01-01,3,\n1,,2006-01-01,9,\n"
        "3,I25.5,,1,\n9,I21,2005-01-01,3,\n",
        "health/prescription.csv": "health_card,drug,day\n2,C07,2005-01-01\n2,C07,2005-02-01\n",
        "census/people.csv": "health_card,person_id,mother_tongue\n1,a,French\n2,b,French\n3,c,English\n",
    }
    for name, rows in people.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(rows)
    conditions = {
        "diagnosis under 'I20-I25'": (1, 0),
        "diagnosis not under ('I20-I25', 'I42')": (0, 1),
        "any(hospitalisation)": (1, 1),
        "any(hospitalisation where cause under 'I21' and days < 5)": (1, 0),
        "any(hospitalisation where cause under 'I21' and days > 5)": (0, 0),
        "any(hospitalisation where cause under 'I42' or cause is null)": (1, 1),
        "count(hospitalisation) >= 2": (1, 0),
        "count(prescription where drug = 'C07') = 2": (1, 0),
        "count(prescription) = 0 and not any(hospitalisation)": (0, 0),
    }
    by = "".join(f'    g{number}: "{condition}"\n' for number, condition in enumerate(conditions))
    file = parse_study_file(f"by:\n  group:\n{by}count: mother_tongue = 'French'\nof: all\n", "s.yaml")
    found = true_counts(design(file, STAYS, CENSUS_DICTIONARY, "usual"), tmp_path, STAYS)
    assert dict(zip(conditions, found, strict=True)) == conditions
