"""The contract for scripts: the exact keys and types of every JSON object, one object on stdout, exit codes by family."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest
from fakes import nursery
from fakes.deployment import FRENCH, Deployment, make, run, run_here
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS

from broker_common.cli import program
from broker_common.privacy.accounting import price

pytestmark = pytest.mark.process

HEX_32 = re.compile(r"[0-9a-f]{32}")
HEX_64 = re.compile(r"[0-9a-f]{64}")
SIGNED_NOTE = re.compile(
    r"census\.example/tripartite\n[0-9]+\n[A-Za-z0-9+/]{43}=\n\n— census\.example/tripartite \S+\n"
)
STATUS_KEYS = [
    *("state", "accounting", "max_belief", "param", "answers", "worst_charged", "worst_belief"),
    *("people_charged", "people_exhausted", "log_size", "policy_hash"),
    *("dictionary", "dictionary_adopted", "dictionary_changed", "rosters"),
]
ANSWER_KEYS = [
    *("query_id", "noisy_count", "margin_95", "cells", "scale", "epsilon", "question", "where", "fraction", "project"),
    *("label", "asked"),
    *("policy_hash", "charged", "checkpoint", "quoted_again", "asked_of"),
    *("share_of_budget", "answers_per_budget", "own_use", "leaves_out_used_up", "linked", "warnings"),
]
AUDIT_KEYS = [
    *("verified", "entries", "answers", "problems", "worst_belief", "not_checked", "pending", "leakage", "logs"),
    *("tickets_shown", "criteria_opened", "noise_proved", "uncharged_samples", "refusals", "unanswered"),
    "problems_in_all",
]
SENIORS = "age >= 65"

DOCUMENTED = {
    "init": "--population --seed --accounting --max-belief --release-tick-ms --json",
    "up": "",
    "demo": "--population --json",
    "doctor": "--home --json",
    "auditor create": "--home --json --health --oversight-to",
    "auditor register": "--home --json --fingerprint --replace",
    "health create": "--home --json --organisation --origin --address --dictionary --linkage-file --places --rows --census "
    "--census-organisation",
    "census create": "--home --json --organisation --origin --address --dictionary --linkage-file --people --places --events "
    "--witness --oversight --accounting --subject --max-belief --release-tick-ms",
    "audit export": "--home --json --to --criteria",
    "audit verify": "--home --json",
    "audit replay": "--home --json",
    "health load": "--check --home --json --max-rejected --release",
    "health relink": "--home --json --new-key --key-file --reload",
    "health serve": "--home",
    "health status": "--home --json",
    "health dictionary": "--home --json --search --under",
    "census dictionary": "--home --json --search --under",
    "dictionary check": "--home --json",
    "dictionary diff": "--json",
    "dictionary draft": "--json --id --codes --to",
    "dictionary adopt": "--home --json",
    "census load": "--check --home --json --max-rejected --release",
    "census relink": "--home --json --new-key --key-file --reload",
    "census serve": "--home",
    "census status": "--home --json --report --plot",
    "census policy": "--home --json",
    "census policy show": "--home --json",
    "census policy propose": "--home --json --max-belief --scales --release-tick-ms --forward-delay-ms "
    "--quote-lifetime-ms --open-quotes --answer-retention-ms --from",
    "census policy adopt": "--home --json --confirm --reason",
    "census shutdown": "--home --json --reason",
    "census reopen": "--home --json --reason",
    "researcher dictionary": "--home --json --search --under",
    "researcher quote": "--home --json --count --scale --margin",
    "researcher ask": "--home --json --where --count --scale --margin --fraction --wait --again --label",
    "researcher answers": "--home --json --collect --state --project --since --until --last --label --format --to",
    "researcher estimate share": "--home --json --part --among",
    "researcher estimate difference": "--home --json --part --among",
    "researcher estimate ratio": "--home --json --part --among",
    "researcher estimate rate-ratio": "--home --json --part --against",
    "researcher estimate standardise": "--home --json --part --among --weights",
    "researcher estimate trend": "--home --json --part --among --scores",
    "researcher serve": "--home",
    "study plan": "--home --json --offline",
    "study run": "--home --json --wait --again",
    "study report": "--home --json --format --to",
}


WRONG_DRAFTS = [
    *(("--scales", scales) for scales in ("", "x", "10-", "-10", "50-10", "1,,2", "1.5", "1-2-3", "1-1002", "\u0661")),
    ("--release-tick-ms", "-1"),
    ("--open-quotes", "0"),
    ("--max-answers", "4294967296"),
    ("--from", "/no/such/file"),
]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A deployment whose nodes do not run."""
    return make(tmp_path_factory.mktemp("stopped") / "deployment", population=100)


# --- objects -----------------------------------------------------------------------------------------------------------


def verify_status(status: dict[str, Any]) -> None:
    """Every key of DESIGN 10 with its type, and no other."""
    assert list(status) == STATUS_KEYS
    assert (status["state"], status["accounting"], status["max_belief"]) == ("serving", "strict", "0.8")
    assert status["param"] == 4
    assert isinstance(status["answers"], int)
    assert status["worst_charged"] == status["answers"] * price(30)
    assert isinstance(status["worst_belief"], float)
    assert 0.5 <= status["worst_belief"] <= 0.8
    assert status["people_charged"] is status["people_exhausted"] is None
    assert isinstance(status["log_size"], int)
    assert HEX_64.fullmatch(status["policy_hash"])


def test_census_status_has_exactly_the_promised_keys_with_the_node_up_and_down(
    served: Deployment, stopped: Deployment
) -> None:
    """`census status --json` does not care whether anything runs."""
    verify_status(served.run("census", "status", "--json").result)
    verify_status(stopped.run("census", "status", "--json").result)


def test_commands_speak_french_and_their_json_does_not(stopped: Deployment) -> None:
    """With TRIPARTITE_LANG: text and errors in French, the object of --json the same bytes as in English."""
    words = ("census", "status", "--home", stopped.home("census"))
    french, english = ({"TRIPARTITE_LANG": code} for code in ("fr", "en"))
    told = run(*words, "--report", env=french).stdout
    assert "Nœud du recensement\u00a0: en service" in told
    assert "au-dessus de 0,8" in told
    assert run(*words, "--report", "--json", env=french).stdout == run(*words, "--report", "--json", env=english).stdout
    reopen = ("census", "reopen", "--home", stopped.home("census"), "--reason", "why")
    refused, same = run(*reopen, "--json", env=french), run(*reopen, "--json", env=english)
    assert (refused.code, refused.stdout) == (same.code, same.stdout)
    assert "Le service n\u2019est pas fermé." in run(*reopen, env=french).stderr


def test_a_terminal_without_french_letters_loses_no_output(stopped: Deployment) -> None:
    """A letter that it has no sign for is shown by its number; the command ends well."""
    ended = subprocess.run(
        [PROGRAM, "census", "status", "--home", stopped.home("census")],
        env={**os.environ, "TRIPARTITE_LANG": "fr", "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0
    told = ended.stdout.decode("latin-1")
    assert told.startswith("N\\u0153ud du recensement\u00a0: en service\n")
    assert "n\\u2019a pu dépasser" in told


def test_an_audit_has_exactly_the_promised_keys_with_the_nodes_up_and_down(
    served: Deployment, stopped: Deployment, tmp_path: Path
) -> None:
    """`audit export` does not care whether anything runs; `audit replay --json` says what DESIGN 10 promises."""
    for deployment, to in ((served, tmp_path / "served"), (stopped, tmp_path / "stopped")):
        for role in ("researcher", "health", "census"):
            exported = run_here("audit", "export", "--home", deployment.home(role), "--to", to / role, "--json").result
            assert list(exported) == ["role", "to", "size", "written"]
            assert (exported["role"], exported["to"]) == (role, str(to / role))
        for command in ("replay", "verify"):
            verdict = run_here("audit", command, to, "--home", deployment.home("auditor"), "--json").result
            assert list(verdict) == AUDIT_KEYS
            assert (verdict["verified"], verdict["problems"]) == (True, [])
            assert all(type(verdict[key]) is int for key in ("entries", "answers"))
            assert all(type(text) is str for text in verdict["not_checked"])
            assert (verdict["leakage"] is None) == (command == "verify")


def test_an_audit_that_finds_something_ends_with_1(stopped: Deployment, tmp_path: Path) -> None:
    """One flipped bit: exit code 1, one object, the entry by its number, and the verdict in the first line for people."""
    for role in ("researcher", "health", "census"):
        assert run_here("audit", "export", "--home", stopped.home(role), "--to", tmp_path / role).code == 0
    (bundle,) = (tmp_path / "census" / "tile" / "entries").rglob("000.p/*")
    content = bytearray(bundle.read_bytes())
    content[40] ^= 1
    bundle.write_bytes(content)
    words = ("audit", "replay", tmp_path, "--home", stopped.home("auditor"))
    outcome = run_here(*words, "--json")
    assert outcome.code == 1
    assert outcome.json["verified"] is False
    (problem,) = outcome.json["problems"]
    assert list(problem) == ["code", "log", "entry", "text"]
    assert (problem["code"], problem["log"], problem["entry"]) == ("ENTRY_DAMAGED", "census", 0)
    assert run_here(*words).stdout.startswith(
        "NOT VERIFIED: 1 problem; the first is ENTRY_DAMAGED in census log, entry 0."
    )


def test_what_cannot_be_exported_or_audited_is_said(stopped: Deployment, tmp_path: Path) -> None:
    """Wrong homes and folders are errors with a hint, and nothing is written."""
    (tmp_path / "empty").mkdir()
    auditor, census = stopped.home("auditor"), stopped.home("census")
    for words, code in (
        (("export", "--home", auditor, "--to", tmp_path / "x"), "CONFIG_INVALID"),
        (("export", "--home", tmp_path / "empty", "--to", tmp_path / "x"), "HOME_INVALID"),
        (("export", "--home", census, "--to", tmp_path / "x", "--criteria"), "INVALID_VALUE"),
        (("export", "--home", census, "--to", stopped.home("health")), "INVALID_VALUE"),
        (("replay", tmp_path / "empty", "--home", auditor), "INVALID_VALUE"),
        (("verify", tmp_path, "--home", census), "HOME_INVALID"),
    ):
        outcome = run_here("audit", *words, "--json")
        assert (outcome.code, outcome.error["code"]) == (3, code), words
    assert not (tmp_path / "x").exists()


def test_a_quote_has_exactly_the_promised_keys_and_charges_nothing(served: Deployment) -> None:
    """`researcher quote --json` names price, noise and what is left, and changes no ledger."""
    before = served.charged_status()
    quote = served.run("researcher", "quote", "--json").result
    assert list(quote) == [
        *("scale", "epsilon", "margin_95", "charged", "remaining", "policy_hash", "expires"),
        *("question", "linked", "cells", "share_of_budget", "answers_per_budget"),
    ]
    assert (quote["scale"], quote["epsilon"], quote["margin_95"], quote["charged"]) == (30, "1/30", 90, 559241)
    assert quote["remaining"] == 41 - before["answers"]
    assert quote["policy_hash"] == before["policy_hash"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", quote["expires"])
    assert served.charged_status() == before


def test_a_margin_buys_the_largest_scale_within_it(served: Deployment) -> None:
    """`--margin` is another way to say `--scale`; a margin that no scale reaches names the smallest."""
    quote = run_here("researcher", "quote", "--home", served.home("researcher"), "--margin", "90", "--json").result
    assert (quote["scale"], quote["margin_95"]) == (30, 90)
    error = run_here("researcher", "quote", "--home", served.home("researcher"), "--margin", "0", "--json")
    assert (error.code, error.error["code"]) == (3, "INVALID_VALUE")
    assert "smallest margin is 3" in error.error["hint"]


def without_warnings(answer: dict[str, Any]) -> dict[str, Any]:
    """A later view of an answer: the warnings belong to its asking."""
    return {name: value for name, value in answer.items() if name != "warnings"}


def test_an_answer_has_exactly_the_promised_keys_and_types(served: Deployment) -> None:
    """`researcher ask --json` prints one object on stdout, progress on stderr, and the answer can be read again."""
    outcome = served.ask(SENIORS, FRENCH)
    answer = outcome.result
    assert list(answer) == ANSWER_KEYS
    assert HEX_32.fullmatch(answer["query_id"])
    assert all(type(answer[key]) is int for key in ("noisy_count", "scale", "margin_95", "charged"))
    assert (answer["scale"], answer["epsilon"], answer["margin_95"], answer["charged"]) == (30, "1/30", 90, 559241)
    assert answer["question"] == FRENCH
    of_cell = {name: answer[name] for name in ("noisy_count", "margin_95")}
    assert answer["cells"] == [{"label": "French", "values": ["French"], **of_cell}]
    assert answer["policy_hash"] == served.json("census", "status")["policy_hash"]
    assert SIGNED_NOTE.fullmatch(answer["checkpoint"])
    assert "The privacy budget has been charged." in outcome.stderr
    listed = served.json("researcher", "answers")["answers"]
    assert [row for row in listed if row["query_id"] == answer["query_id"]] == [
        listed[-1]
        | without_warnings(answer)
        | {"state": "answered", "where": SENIORS, "fraction": "1", "refused": None}
    ]


def test_an_estimate_of_a_stored_answer_charges_nothing(served: Deployment) -> None:
    """A table is asked once, for the price of one answer; its share, with both intervals, is for nothing."""
    answer = served.ask(SENIORS, "mother_tongue by 'French', rest").result
    before = served.charged_status()
    words = ("share", answer["query_id"], "--part", "French", "--json", "--home", served.home("researcher"))
    found = run_here("researcher", "estimate", *words).result
    french, rest = (cell["noisy_count"] for cell in answer["cells"])
    assert found["value"] == pytest.approx(min(1, max(0, french / (french + rest))) if french + rest > 0 else None)
    assert found["answers"][0]["query_id"] == answer["query_id"]
    assert found["noise_only"]["method"] != found["with_sampling"]["method"]
    assert served.charged_status() == before


def test_asking_again_gives_the_same_answer_and_charges_nothing(served: Deployment) -> None:
    """One ticket, one charge, one answer."""
    answer = served.ask(SENIORS, "all").result
    before = served.charged_status()
    again = served.run("researcher", "ask", "--again", answer["query_id"], "--json").result
    assert without_warnings(again) == without_warnings(answer)
    assert (
        served.json("researcher", "answers", answer["query_id"])["answers"][0]["noisy_count"] == answer["noisy_count"]
    )
    assert served.charged_status() == before


def test_a_label_stays_in_the_researchers_home(served: Deployment, tmp_path: Path) -> None:
    """Neither agency has it, nor what an auditor is handed; a later one takes the place of the first."""
    asked = served.ask(SENIORS, "all", "--label", "needle in a haystack").result
    home = served.home("researcher")
    assert asked["label"] == "needle in a haystack"
    assert served.run("audit", "export", "--home", home, "--to", tmp_path / "export", "--json").code == 0
    kept = [file for folder in (served.directory, tmp_path) for file in folder.rglob("*") if file.is_file()]
    found = {file for file in kept if b"needle in a haystack" in file.read_bytes()}
    assert found
    assert {file.name.partition("-")[0] for file in found} == {"answers.db"}
    again = served.run("researcher", "ask", "--again", asked["query_id"], "--label", "another", "--json").result
    assert without_warnings(again) == without_warnings(asked) | {"label": "another"}
    assert [row["query_id"] for row in served.json("researcher", "answers", "--label", "another")["answers"]] == [
        asked["query_id"]
    ]


def test_a_home_is_found_by_the_environment_and_where_one_stands(served: Deployment) -> None:
    """Without --home, in processes of their own; every role's commands find their own home in what `init` made."""
    answers = run("researcher", "answers", "--last", "1", "--json", cwd=served.home("researcher")).result
    assert run("researcher", "answers", "--last", "1", "--json", cwd=served.directory).result == answers
    for role in ("health", "census"):
        status = run(role, "status", "--json", env={"TRIPARTITE_HOME": str(served.directory)}).result
        assert status["policy_hash" if role == "census" else "organisation"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "md", "parquet"])
def test_answers_are_written_as_files_for_other_programs(served: Deployment, form: str, tmp_path: Path) -> None:
    """To a file for its owner alone, and the same to standard output."""
    file = tmp_path / f"answers.{form}"
    query = served.ask(SENIORS, "all").result["query_id"]
    written = served.run("researcher", "answers", query, "--format", form, "--to", file)
    assert (written.code, written.stdout) == (0, "")
    assert written.stderr == f"Questions written to {file}: 1.\n"
    assert file.stat().st_mode & 0o777 == 0o600
    command = [PROGRAM, "researcher", "answers", "--home", served.home("researcher"), query, "--format", form]
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        assert nursery.start(command, stdout.fileno(), stderr.fileno()).wait(PATIENCE_SECONDS) == 0
        stdout.seek(0)
        printed = stdout.read()
    assert printed == file.read_bytes()
    assert len(printed.splitlines()) == {"csv": 2, "jsonl": 1, "md": 3}.get(form, len(printed.splitlines()))
    wrong = served.run("researcher", "answers", "--format", form, "--json")
    assert (wrong.code, wrong.error["code"]) == (2, "USAGE")


def test_answers_lists_refused_questions_too(served: Deployment) -> None:
    """A question refused after it was prepared stays on the researcher's list, with the reason."""
    refused = served.ask(SENIORS, FRENCH, "--project", "of-somebody-else")
    assert (refused.code, refused.error["code"]) == (3, "UNKNOWN_PROJECT")
    last = served.json("researcher", "answers", "--collect")["answers"][-1]
    assert (last["state"], last["refused"], last["noisy_count"]) == ("refused", "UNKNOWN_PROJECT", None)


def test_policy_and_policy_show_print_the_same_signed_policy(stopped: Deployment) -> None:
    """`census policy` is short for `census policy show`."""
    home = stopped.home("census")
    policy = stopped.run("census", "policy", "--json").result
    assert policy == run_here("census", "policy", "show", "--home", home, "--json").result
    assert policy["max_belief"] == "0.8"
    assert policy["scales"] == list(range(1, 51))
    assert policy["cap"] == 23_258_159
    text = run_here("census", "policy", "--home", home).stdout
    assert policy["policy_hash"] in text
    assert "1 to 50" in text


def test_a_shutdown_by_the_operator_is_durable_and_can_be_repeated(tmp_path: Path) -> None:
    """`census shutdown` works with the node down, says so in JSON, and logs one entry however often it is given."""
    deployment = make(tmp_path / "deployment", population=10)
    first = deployment.run("census", "shutdown", "--reason", "end of the study", "--json").result
    assert first == {"state": "shutdown", "log_size": 8}
    assert deployment.json("census", "shutdown", "--reason", "once more") == first
    event = deployment.events("census")[-1]
    assert list(event) == ["key_id", "note", "reason", "signature", "type"]
    assert (event["type"], event["reason"], event["note"]) == ("shutdown", "operator", "end of the study")
    assert deployment.json("census", "status")["state"] == "shutdown"
    assert deployment.json("census", "reopen", "--reason", "another study") == {"state": "serving", "log_size": 9}
    assert deployment.json("census", "status")["state"] == "serving"


def test_health_status_counts_people_and_questions(served: Deployment, stopped: Deployment) -> None:
    """`health status --json` works with the node up and down."""
    keys = ["organisation", "serving", "release", "tickets", "open", "log_size", "people", "places"]
    keys += ["tables", "least_forward_delay_ms", "policy", "roster", "linkage"]
    keys += ["dictionary", "dictionary_adopted", "dictionary_changed"]
    up, down = served.run("health", "status", "--json").result, stopped.json("health", "status")
    assert list(up) == list(down) == keys
    assert (up["serving"], down["serving"]) == (True, False)
    assert (up["people"], down["people"]) == (2000, 100)
    assert up["places"] == down["places"] == 524_288
    assert up["policy"] == ""
    assert "PEER_UNAVAILABLE" in down["policy"]


def test_dictionaries_are_published_by_the_node_and_to_the_researcher(served: Deployment) -> None:
    """A researcher sees the health operator's columns and codes, and the language variables."""
    health = served.json("health", "dictionary")
    researcher = served.json("researcher", "dictionary")
    assert list(researcher) == ["health", "census", "census_release"]
    assert researcher["health"] == health
    assert "angioplasty" in str(health)
    assert "mother_tongue" in str(researcher["census"])
    text = run_here("researcher", "dictionary", "--home", served.home("researcher")).stdout
    assert "angioplasty" in text
    assert "mother_tongue" in text


# --- failures ----------------------------------------------------------------------------------------------------------


def test_exit_2_for_usage(served: Deployment) -> None:
    """A command that is not used as documented fails before anything happens, with the error object under --json."""
    home = ("--home", str(served.home("researcher")))
    ask = ("researcher", "ask", *home)
    both = ("--where", SENIORS, "--count", "all")
    outcome = run("researcher", "ask", "--json")
    assert (outcome.code, outcome.error["code"]) == (2, "USAGE")
    for words in (
        ("no-such-role",),
        ("researcher", "no-such-command"),
        (*ask, "--no-such-option"),
        ask,
        (*ask, "--where", SENIORS),
        (*ask, "--count", "all"),
        (*ask, *both, "--scale", "30", "--margin", "90"),
        (*ask, *both, "--scale", "a lot"),
        (*ask, *both, "--scale", "0"),
        (*ask, *both, "--scale", "1.5"),
        (*ask, *both, "--margin", "-1"),
        (*ask, *both, "--wait", "-1"),
        (*ask, *both, "--wait", "nan"),
        (*ask, *both, "--wait", "inf"),
        (*ask, *both, "--again", "00" * 16),
        ("census", "policy"),
        ("census", "reopen", "--home", str(served.home("census"))),
        *(("census", "policy", "propose", "--home", str(served.home("census")), *words) for words in WRONG_DRAFTS),
        ("census", "policy", "adopt", "--home", str(served.home("census"))),
        ("census", "policy", "adopt", "--home", str(served.home("census")), "0" * 8, "--confirm"),
        ("census", "policy", "adopt", "--home", str(served.home("census")), "0" * 8, "--reason", "why"),
        ("up", "/no/such/folder"),
        ("init", "/no/such/folder", "--population", "9"),
        ("init", "/no/such/folder", "--accounting", "generous"),
    ):
        outcome = run_here(*words, "--json")
        assert (outcome.code, outcome.error["code"]) == (2, "USAGE"), words


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("agee >= 65", "UNKNOWN_COLUMN"),
        ("health_card = '0877594218'", "UNKNOWN_COLUMN"),
        ("mother_tongue = 'French'", "UNKNOWN_COLUMN"),
        ("procedure = 'angioplast'", "UNKNOWN_CODE"),
        ("sex = 'Female'", "UNKNOWN_CODE"),
        ("age = 'old'", "WRONG_TYPE"),
        ("sex > 'female'", "WRONG_OPERATOR"),
        ("", "CRITERIA_SYNTAX"),
        ("age", "CRITERIA_SYNTAX"),
        ("age >= 65; drop table people", "CRITERIA_SYNTAX"),
        ("age >= 65 -- and so on", "CRITERIA_SYNTAX"),
        ("age >= 65 /* */", "CRITERIA_SYNTAX"),
        ("age >= 65 or 1 = 1", "CRITERIA_SYNTAX"),
        ("sex = 'female' union select * from people", "CRITERIA_SYNTAX"),
        ("age in (select age from people)", "CRITERIA_SYNTAX"),
        ("sex = 'female' or exists (select 1)", "CRITERIA_SYNTAX"),
        ("sex = '' or ''='", "CRITERIA_SYNTAX"),
        ("length(sex) > 1", "CRITERIA_SYNTAX"),
        ("sex like '%'", "CRITERIA_SYNTAX"),
        ("age >= ?", "CRITERIA_SYNTAX"),
        ("\N{CYRILLIC SMALL LETTER A}ge >= 65", "CRITERIA_SYNTAX"),
        ("(" * 500 + "age >= 65" + ")" * 500, "CRITERIA_TOO_LARGE"),
        ("not " * 500 + "age >= 65", "CRITERIA_TOO_LARGE"),
        (" or ".join(["age >= 65"] * 1000), "CRITERIA_TOO_LARGE"),
    ],
)
def test_exit_3_for_criteria_that_are_no_criteria(served: Deployment, where: str, code: str) -> None:
    """Typos, wrong codes, injections and towers of parentheses are refused alike: a stable code, a hint, no charge."""
    before = served.json("census", "status")["worst_charged"]
    outcome = run_here(
        "researcher", "ask", "--home", served.home("researcher"), "--where", where, "--count", "all", "--json"
    )
    assert (outcome.code, outcome.error["code"]) == (3, code)
    assert "Traceback" not in outcome.stderr
    assert served.json("census", "status")["worst_charged"] == before


def test_a_typo_is_answered_with_the_nearest_name(served: Deployment) -> None:
    """A misspelt column or code leads to the right one."""
    assert "age" in served.ask("agee >= 65").error["hint"]
    assert "'angioplasty'" in served.ask("procedure = 'angioplast'").error["hint"]


@pytest.mark.parametrize(
    ("count", "code"),
    [
        ("mother_tung = 'French'", "UNKNOWN_VARIABLE"),
        ("age = '65'", "UNKNOWN_VARIABLE"),
        ("mother_tongue = 'french'", "UNKNOWN_VALUE"),
        ("mother_tongue in ('French', 'Klingon')", "UNKNOWN_VALUE"),
        ("mother_tongue <> 'French'", "QUESTION_SYNTAX"),
        ("mother_tongue in ()", "QUESTION_SYNTAX"),
        ("all; drop table people", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French', 'french', rest", "UNKNOWN_VALUE"),
        ("mother_tongue by 'French', 'French'", "QUESTION_SYNTAX"),
        ("mother_tongue by " + ", ".join(f"'{number}'" for number in range(17)), "TOO_MANY_CELLS"),
        ("", "QUESTION_SYNTAX"),
    ],
)
def test_exit_3_for_questions_that_are_no_questions(served: Deployment, count: str, code: str) -> None:
    """The question is checked when it is quoted, before a sample is drawn."""
    home = served.home("researcher")
    for words in (("quote",), ("ask", "--where", SENIORS)):
        outcome = run_here("researcher", *words, "--home", home, "--count", count, "--json")
        assert (outcome.code, outcome.error["code"]) == (3, code)


@pytest.mark.parametrize("fraction", ["0", "-0.5", "1.5", "1e-9", "0.0000001", "nan", "inf", "half", "", "1/4"])
def test_exit_3_for_a_fraction_that_is_none(served: Deployment, fraction: str) -> None:
    """A sampling fraction has at most six decimals and lies in (0, 1]."""
    words = ("--where", SENIORS, "--count", "all", "--fraction", fraction)
    outcome = run_here("researcher", "ask", "--home", served.home("researcher"), *words, "--json")
    assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE")


def test_exit_3_for_unknown_queries_and_homes(served: Deployment, tmp_path: Path) -> None:
    """A query that is not ours, and a folder that is no home, are the caller's mistake."""
    home = served.home("researcher")
    for words, code in (
        (("researcher", "answers", "--home", home, "00" * 16), "UNKNOWN_QUERY"),
        (("researcher", "ask", "--home", home, "--again", "nonsense"), "UNKNOWN_QUERY"),
        (("researcher", "quote", "--home", tmp_path), "HOME_INVALID"),
        (("census", "status", "--home", tmp_path), "HOME_INVALID"),
        (("health", "status", "--home", served.home("census")), "HOME_INVALID"),
    ):
        outcome = run_here(*words, "--json")
        assert (outcome.code, outcome.error["code"]) == (3, code)
    assert list(tmp_path.iterdir()) == []


def test_exit_4_for_a_scale_outside_the_policy(served: Deployment) -> None:
    """A scale that the policy does not admit is refused when it is quoted, with those that it admits."""
    for words in (("quote",), ("ask", "--where", SENIORS, "--count", "all")):
        outcome = served.run("researcher", *words, "--scale", "51", "--json")
        assert (outcome.code, outcome.error["code"]) == (4, "SCALE_REFUSED")
        assert "1 to 50" in outcome.error["hint"]


def test_exit_5_for_nodes_that_do_not_answer(stopped: Deployment) -> None:
    """With both nodes down, and with one of them down, the error names the one that is missed."""
    words = ("--where", SENIORS, "--count", "all", "--json")
    assert (stopped.run("researcher", "quote", "--json").error["text"]) == "The census node does not answer."
    outcome = stopped.run("researcher", "ask", *words)
    assert (outcome.code, outcome.error["code"]) == (5, "PEER_UNAVAILABLE")
    assert "health node" in outcome.error["text"]
    with stopped.node("health"):
        outcome = stopped.run("researcher", "ask", *words)
    assert (outcome.code, outcome.error["code"]) == (5, "PEER_UNAVAILABLE")
    assert "census node" in outcome.error["text"]


def test_without_json_a_failure_is_text_on_stderr(served: Deployment) -> None:
    """Standard output stays empty, and the code is beside the sentence for looking it up."""
    outcome = served.run("researcher", "ask", "--where", "agee > 1", "--count", "all")
    assert (outcome.code, outcome.stdout) == (3, "")
    assert outcome.stderr.startswith("Error: There is no column 'agee'.\n")
    assert outcome.stderr.endswith("[UNKNOWN_COLUMN]\n")


# --- help --------------------------------------------------------------------------------------------------------------


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command under `command`; a group that does something by itself counts as one, too."""
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    found = [path] if command.invoke_without_command else []
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found += leaves(below, (*path, name))
    return found


def test_every_documented_command_exists_with_its_options() -> None:
    """The commands of DESIGN 10 are there, and `--help` of each names its options and explains every one of them."""
    assert {" ".join(path) for path in leaves(program)} >= DOCUMENTED.keys()
    for path in leaves(program):
        text = run_here(*path, "--help").stdout
        assert text.startswith(f"Usage: tripartite {' '.join(path)} ")
        for option in DOCUMENTED.get(" ".join(path), "").split():
            assert f"{option} " in text or f"{option}\n" in text, (path, option)


def test_every_option_of_every_command_is_explained() -> None:
    """No option appears in a help text without a sentence."""
    for path in leaves(program):
        command: click.Command = program
        for name in path:
            assert isinstance(command, click.Group)
            below = command.get_command(click.Context(command), name)
            assert below is not None
            command = below
        assert command.help
        assert all(option.help for option in command.params if isinstance(option, click.Option)), path


def test_the_program_lists_its_groups_and_its_version() -> None:
    """`tripartite --help` is the first thing that anybody sees."""
    outcome = run("--help")
    assert outcome.code == 0
    for name in ("census", "demo", "health", "init", "researcher", "up"):
        assert f"\n  {name} " in outcome.stdout
    assert re.fullmatch(r"tripartite, version \d+\.\d+\.\d+\n", run_here("--version").stdout)


@pytest.mark.parametrize("module", ["broker_common", "broker_common.cli"])
def test_the_program_is_a_module_too(module: str) -> None:
    """Where no script was installed; neither name ends well having done nothing."""
    words = [sys.executable, "-m", module, "--version"]
    assert "tripartite, version" in subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_no_command_at_all_shows_the_help_and_is_a_usage_error() -> None:
    """`tripartite` alone, and each group alone, say what there is to say."""
    for words in ((), ("census",), ("health",), ("researcher",)):
        outcome = run_here(*words)
        assert (outcome.code, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith("Usage: tripartite")
