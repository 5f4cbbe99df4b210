"""Targets whose input is text: criteria, questions, numbers, dates, keys, certificates, configurations, policies, CSV."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any, cast

import grpc
import msgspec
import numpy as np
import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from fakes import event_worlds
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY, STAYS, census_row, health_row
from fakes.obvious_criteria import ObviousPerson, meets
from fakes.registries import made_names
from fakes.world import make_policy
from fuzz.target import Cut, Finding, Target, ValueT, fresh_path, joined, require

from broker_common.crypto.certificates import (
    Identity,
    PeerCertificate,
    certificate_expiry_ms,
    certificate_fingerprint,
    make_certificate,
    parse_identity,
)
from broker_common.crypto.id_forms import ID_FORMS, parse_health_card, parse_ids
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.crypto.postal_addresses import parse_postal_address
from broker_common.crypto.sealing import SealingKey, UnsealingKey
from broker_common.crypto.secret import parse_secret, secret_text
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import parse_max_belief
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.privacy.policy import Policy, parse_policy, verify_policy
from broker_common.query.canonical import canonical_bytes, describe
from broker_common.query.certainty import Certainty, certainty
from broker_common.query.condition import AllOf, AnyOf, Condition, parse_date
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import dictionary_document, parse_dictionary_document
from broker_common.query.normal_form import count_terms, negate, verify_size
from broker_common.query.question import Question, parse_question, question_from_wire, read_question
from broker_common.query.syntax import parse_syntax
from broker_common.rpc.callers import by_fingerprint, verify_caller
from broker_common.storage.dictionary.code_lists import read_code_list, read_text, verify_codes
from broker_common.storage.dictionary.file import dictionary_toml, parse_dictionary, read_dictionary
from broker_common.storage.home import Home
from broker_common.storage.source.plan import PlainPlan
from broker_common.storage.source.rows import RejectedRows, verify_names
from broker_common.storage.source.values import ListReader
from broker_common.values import base64_text, parse_base64
from census_node.config import CensusConfig
from census_node.registry.loading import id_columns, read_registry
from deploy.synthetic.population import CENSUS_COLUMNS, HEALTH_COLUMNS
from health_node.config import HealthConfig
from health_node.people.cohort import Scratch, compile_condition
from health_node.people.encoding import Encoding, Stored
from health_node.people.loading import load_people
from health_node.people.store import PeopleStore
from health_node.people.tables import Declared, declared_of
from health_node.query.marks import price, verify_affordable
from researcher_node.answers.selection import parse_since, parse_until
from researcher_node.asking.proposal import parse_fraction
from researcher_node.config import ResearcherConfig
from researcher_node.study.design import Study, design
from researcher_node.study.file import parse_study_file
from researcher_node.study.overlap import most_in

CRITERIA_CODES = frozenset(
    {"CRITERIA_TOO_LARGE", "UNKNOWN_COLUMN", "UNKNOWN_EVENTS", "UNKNOWN_CODE", "WRONG_TYPE", "WRONG_OPERATOR"}
)
QUESTION_CODES = frozenset({"UNKNOWN_VARIABLE", "UNKNOWN_VALUE"})
NOW_MS = 1_800_000_000_000


def text_of(data: bytes) -> str:
    """A command line's text of bytes: those that are no text are kept, as lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


# --- criteria and questions ------------------------------------------------------------------------------------------


_FEW = 64


_TICKING = make_policy(tick_ms=250, delay_ms=605)


@cache
def _few_people() -> dict[str, Stored]:
    """Numbers all over every column, from no value to the greatest."""
    people: dict[str, Stored] = {}
    for column in HEALTH_DICTIONARY.columns:
        encoding = Encoding.of(column)
        people[column.name] = cast("Stored", (np.arange(_FEW) * (encoding.top / (_FEW - 1))).astype(encoding.kind))
    return people


def _verify_forms(condition: Condition, dictionary: Dictionary) -> None:
    """One message, one canonical form and one text."""
    again = condition_from_wire(condition.to_wire(), dictionary)
    require(again == condition, "a condition is read back from its message")
    require(canonical_bytes(again) == canonical_bytes(condition), "equal conditions have equal canonical bytes")
    try:
        read = parse_condition(describe(condition), dictionary)
    except InvalidRequestError as error:
        # Written out in full it may be longer than a text may be.
        require(error.code == "CRITERIA_TOO_LARGE", "a condition is read back from its text")
    else:
        require(read == condition, "a condition is read back from its text")


_PATIENTS = (
    ObviousPerson({}),
    ObviousPerson(
        {"age": {70}, "sex": {"male"}, "diagnosis": {"I21.0", "J45"}, "day": {date(1941, 2, 3)}},
        {
            "hospitalisation": [
                {"cause": "I21", "admitted": date(2005, 6, 7), "days": 12, "day": date(2005, 6, 19)},
                {"cause": None, "admitted": date(2010, 1, 1), "days": 1, "day": None},
                {"cause": "I25.5", "admitted": None, "days": 4, "day": None},
            ],
            "prescription": [{"drug": "C07", "day": date(2005, 6, 20)}],
        },
    ),
)


def verify_condition_on_events(condition: Condition, data: bytes) -> None:
    """Properties of every condition, and it is true or false of everyone there is, as its certainty has it."""
    del data
    _verify_forms(condition, STAYS)
    sure = certainty(condition, STAYS)
    for person in _PATIENTS:
        is_met = meets(condition, person, STAYS)
        require(is_met != meets(negate(condition), person, STAYS), "everybody meets a condition or its negation")
        require(sure is None or is_met == (sure is Certainty.EVERYBODY), "what is certain is so")
    groups = condition.parts if isinstance(condition, AllOf | AnyOf) else (condition,)
    together = max(sum(meets(group, person, STAYS) for group in groups) for person in _PATIENTS)
    require(together <= most_in(groups, STAYS), "nobody is in more groups than can be")


def verify_condition(condition: Condition) -> None:
    """Properties of every condition: one message, one canonical form, one text, and one meaning."""
    _verify_forms(condition, HEALTH_DICTIONARY)
    marks = [np.empty(_FEW, dtype=np.bool_) for _ in range(2)]
    for each, found in zip((condition, negate(condition)), marks, strict=True):
        compile_condition(each, HEALTH_DICTIONARY).mark(_few_people(), found, Scratch(_FEW))
    require(bool((marks[0] ^ marks[1]).all()), "everybody is meant by a condition or by its negation")
    drawn, whole = (
        [price(condition, fraction, Declared(places), HEALTH_DICTIONARY) for places in (1, 2, 3)]
        for fraction in (1, 1_000_000)
    )
    require(drawn[2] - drawn[1] == drawn[1] - drawn[0] > whole[1] - whole[0] > 0, "it has a price for each place")
    try:
        verify_affordable(condition, 1, HEALTH_DICTIONARY, declared=Declared(1), policy=_TICKING, work_per_second=1000)
    except InvalidRequestError as error:
        require(error.code == "CRITERIA_TOO_DEAR", "it is too dear, or is asked")
        require(0 <= int(error.details["terms"]) < count_terms(condition), "fewer terms would do")


def _read(parse: Callable[[str, Dictionary], ValueT], data: bytes, dictionary: Dictionary) -> ValueT:
    """Parse the text; the suggestion of a grammar error can be parsed."""
    try:
        return parse(text_of(data), dictionary)
    except InvalidRequestError as error:
        told, colon, text = error.details.get("instead", "").partition(": ")
        if error.code.endswith("_SYNTAX") and told + colon == "Type: ":
            try:
                parse(text, dictionary)
            except InvalidRequestError as other:
                raise Finding("what to type can be read") from other
        raise


def _check_condition(condition: Condition, data: bytes) -> None:
    del data
    verify_condition(condition)


def verify_question(question: Question) -> None:
    """Properties of every question: one message and one text."""
    require(parse_question(question.text, CENSUS_DICTIONARY) == question, "a question is read back from its text")
    require(
        question_from_wire(question.to_wire(), CENSUS_DICTIONARY) == question,
        "a question is read back from its message",
    )


def _check_question(question: Question, data: bytes) -> None:
    del data
    verify_question(question)


def _criteria_seeds() -> dict[str, bytes]:
    return {
        "simple": b"age >= 65",
        "codes": b"diagnosis in ('stroke', 'asthma') and not sex = 'male'",
        "dates": b"last_admission_date between '2010-01-01' and DATE '2010-12-31'",
        "nested": b"not (not (age < 3 or (hospital_visits <> 4 and (5 <= age or emergency_visits != -1))))",
        "quoted": b"census_division = 'Stormont, Dundas and Glengarry'",
        "missing": b"last_admission_date is null and not (diagnosis is not null)",
        "beginning": b"diagnosis like 'type_%' or procedure not like 'c%'",
        "bad beginning": b"diagnosis like 'E11%'",
        "bad habits": "select count(*) from t where age == 5 && sex = female or sex != \u201cmale\u201d;".encode(),
        "bad lists": b"sex = 'male' or 'female' and diagnosis = (stroke, 'asthma') and age between (1, 2",
        "bad sides": b"'age' >= 65 1 <= age <= 2 last_admission_date > 2010-1-1 and sex = null",
        "bad quote": b"census_division = 'it''s'",
        "bad statement": b"age > 1; drop table people",
    }


def _event_seeds() -> dict[str, bytes]:
    return {
        "under": b"diagnosis under 'I20-I25' and diagnosis not under ('I21', 'I42')",
        "any": b"any(hospitalisation where cause under 'I21' and admitted between '2005-01-01' and '2005-12-31')",
        "any at all": b"not any(prescription) or any(hospitalisation)",
        "count": b"count(hospitalisation where not (days < 3 or cause is null)) >= 3 and age >= 65",
        "equal": b"count(prescription where drug in ('C07', 'C10')) = 2 or 5 <> count(prescription)",
        "between": b"count(hospitalisation) between 2 and 5 and count(prescription) in (0, 1)",
        "beginning": b"any(hospitalisation where cause like 'I21%' or day > '2010-01-01')",
        "bad column": b"cause under 'I21'",
        "bad person": b"any(prescription where age > 3)",
        "bad events": b"any(stays)",
        "bad nesting": b"any(prescription where any(hospitalisation))",
        "bad count": b"count(prescription) >= 0 or count(prescription) < 0 or count(prescription)",
        "bad any": b"any(prescription where drug = 'C07') >= 2",
        "bad bounds": b"count(prescription) between 5 and 2",
        "bad habits": b"exists(prescription, prescription.drug == C07 && cause under in (I20, I21)",
        "bad where": b"any prescription where drug = C07 and count hospitalisation > 3",
        "bad branch": b"sex under 'male' or diagnosis under 'I2%'",
    }


def _question_seeds() -> dict[str, bytes]:
    return {
        "all": b"all",
        "one": b"mother_tongue = 'French'",
        "several": b"Home_Language in ('French', 'English')",
        "share": b"mother_tongue by 'French', rest",
        "table": b"Mother_Tongue by 'Other', ('French','English and French'),'English', rest",
        "bad list": b"mother_tongue in ('French' 'English')",
        "bad habits": b"select count(*) from t where mother_tongue == French or mother_tongue = English",
        "bad rest": b"not mother_tongue in (French, 'English'",
        "bad count": b"COUNT(*)",
        "bad cells": b"mother_tongue by 'French', rest, rest",
    }


_QUESTION_WORDS = (
    *(name.encode() for name in CENSUS_DICTIONARY.names),
    *(b" in (", b" by ", b", rest", b"), (", b"'French'", b"', '", b"all", b"''"),
)


# --- short texts -----------------------------------------------------------------------------------------------------


def _check_fraction(millionths: int, data: bytes) -> None:
    # Written with its six decimals it is read as the same fraction.
    written = f"{millionths // 10**6}.{millionths % 10**6:06}"
    require(parse_fraction(written) == millionths, "a fraction is read back")
    significant = text_of(data).replace(".", "").lstrip("0").rstrip("0")
    require(len(significant) <= len("1000000"), "a fraction has six decimals at most")


def _parse_times(data: bytes) -> tuple[int, int]:
    text = text_of(data)
    return parse_since(text), parse_until(text)


def _check_times(times: tuple[int, int], data: bytes) -> None:
    since, until = times
    length = 86_400_000 if len(data) == len("2026-03-31") else 1000
    require(until - since == length, "a day is a day long, an instant a second")
    # Far from both ends of the calendar, the same instant at another offset says the same.
    if abs(since) < 6 * 10**13:
        instant = _EPOCH + timedelta(milliseconds=since)
        for offset in (timedelta(), timedelta(hours=-5)):
            require(parse_since(instant.astimezone(timezone(offset)).isoformat()) == since, "an instant is read back")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _parse_reference(data: bytes) -> bytes:
    # As TOML has it: always valid UTF-8.
    reference = data.decode("utf-8", "replace")
    # Nothing outside of an empty folder: a configuration may well name a device that never ends.
    return _HOME.read(reference.replace("/", "").replace("..", ""))


def _empty_folder() -> Path:
    folder = fresh_path()
    folder.mkdir()
    return folder


_HOME = Home(_empty_folder(), "census")


# --- keys ------------------------------------------------------------------------------------------------------------

_FIXED = bytes(range(1, 33))
_SIGNING = SigningKey(Purpose.TICKET, _FIXED)
_OPENING = UnsealingKey(_FIXED * 3)

_KEY_FORMS: Mapping[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "signing": (lambda text: SigningKey.parse_text(text, Purpose.TICKET), SigningKey.to_text),
    "verify": (lambda text: VerifyKey.parse_text(text, Purpose.TICKET), VerifyKey.to_text),
    "opening": (UnsealingKey.parse_text, UnsealingKey.to_text),
    "sealing": (SealingKey.parse_text, SealingKey.to_text),
    "secret": (lambda text: parse_secret(text, "linkage"), lambda key: secret_text("linkage", key)),
}


def _parse_key(data: bytes) -> tuple[str, str]:
    kind, _, raw = data.partition(b":")
    parse, write = _KEY_FORMS.get(text_of(kind), _KEY_FORMS["signing"])
    text = raw.decode("ascii")
    return write(parse(text)), text


def _check_key(written_and_read: tuple[str, str], data: bytes) -> None:
    del data
    written, text = written_and_read
    require(written == text.strip(), "a key has one spelling")


def _key_seeds() -> dict[str, bytes]:
    texts = {
        "signing": _SIGNING.to_text(),
        "verify": _SIGNING.verify_key.to_text(),
        "opening": _OPENING.to_text(),
        "sealing": _OPENING.sealing_key.to_text(),
        "secret": secret_text("linkage", _FIXED),
    }
    return {kind: f"{kind}:{text}\n".encode() for kind, text in texts.items()}


def _parse_signature(data: bytes) -> None:
    cut = Cut(data)
    VerifyKey(Purpose.TICKET, cut.piece()).verify_signature(cut.piece(), cut.rest())


# --- certificates ----------------------------------------------------------------------------------------------------


def _pem_of(data: bytes) -> bytes:
    """Text as it stands, or DER in a proper envelope, so that mutations reach what is inside."""
    if data.startswith(b"-----"):
        return data
    lines = textwrap.wrap(base64_text(data), 64)
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]).encode()


def _parse_certificate(data: bytes) -> PeerCertificate:
    return PeerCertificate.parse_pem(_pem_of(data))


_SERVER = make_certificate(Identity("some-agency", "health", "node"), now_ms=NOW_MS, days=1)


def _check_certificate(certificate: PeerCertificate, data: bytes) -> None:
    del data
    require(PeerCertificate.parse_pem(certificate.pem) == certificate, "a certificate is read back")
    require(parse_identity(certificate.identity.uri) == certificate.identity, "an identity is read back")
    require(certificate_fingerprint(certificate.pem) == certificate.fingerprint, "one certificate, one fingerprint")
    require(certificate_expiry_ms(certificate.pem) == certificate.expiry_ms, "one certificate, one end")
    # Any one that it cannot read hides all those that follow.
    server = grpc.server(ThreadPoolExecutor(1))
    shown = [(_SERVER.private_key, _SERVER.certificate)]
    credentials = grpc.ssl_server_credentials(shown, root_certificates=certificate.pem, require_client_auth=True)
    try:
        server.add_secure_port("127.0.0.1:0", credentials)
    except RuntimeError as error:
        raise Finding("what is trusted can be read by TLS") from error
    finally:
        server.stop(None)


def _parse_bare_certificate(data: bytes) -> None:
    pem = _pem_of(data)
    certificate_fingerprint(pem)
    certificate_expiry_ms(pem)


def _parse_caller(data: bytes) -> Identity:
    cut = Cut(data)
    context: dict[str, list[bytes]] = {}
    for name in ("transport_security_type", "security_level", "ssl_tls_version"):
        context[name] = [cut.piece()]
    context["x509_pem_cert"] = [_pem_of(cut.rest())]
    return verify_caller(context, by_fingerprint([_REGISTERED]), lambda: NOW_MS)


# Made once by `make_certificate`, so that every run mutates the same bytes; its private key was thrown away.
_PEM = (Path(__file__).parent / "corpus" / "certificate" / "usual.pem").read_bytes()
_REGISTERED = PeerCertificate.parse_pem(_PEM)


def _certificate_seeds() -> dict[str, bytes]:
    der = x509.load_pem_x509_certificate(_PEM).public_bytes(serialization.Encoding.DER)
    return {
        "pem": _PEM,
        "der": der,
        "bad two": 2 * _PEM,
        # The issuer stands before the subject.
        "bad issuer": der.replace(b"tripartite", b"\xff" * 10, 1),
        "bad subject": der.replace(b"\x0c\x36tripartite", b"\x1e\x36tripartite"),
        "bad signature": der[:-1] + bytes([der[-1] ^ 1]),
    }


def _caller_seeds() -> dict[str, bytes]:
    good = joined(b"ssl", b"TSI_PRIVACY_AND_INTEGRITY", b"TLSv1.3")
    return {"known": good + _PEM, "bad certificate": good}


# --- configurations and policies -------------------------------------------------------------------------------------

_PEER = {"address": "127.0.0.1:7000"}
_CONFIGS: Mapping[type[msgspec.Struct], dict[str, Any]] = {
    CensusConfig: {
        "role": "census",
        "organisation": "census-agency",
        "origin": "census.example/log",
        "people": 524_288,
        "reflection": True,
        "limits": {"max_queries": 3},
        "keys": {"identity": "env:I", "tls": "file:t"},
    },
    HealthConfig: {
        "role": "health",
        "organisation": "health-agency",
        "origin": "health.example/log",
        "places": 524_288,
        "census": {**_PEER, "organisation": "census-agency"},
        "keys": {"sampling": "env:S"},
    },
    ResearcherConfig: {
        "role": "researcher",
        "researcher_id": "r-1",
        "organisation": "university",
        "project": "p",
        "health": _PEER,
        "census": _PEER,
    },
}


def _config_target(config_type: type[msgspec.Struct]) -> Target[msgspec.Struct]:
    home = Home(_empty_folder(), "some")
    file = home.path / "config.toml"

    def parse(data: bytes) -> msgspec.Struct:
        file.write_bytes(data)
        return home.load_config(config_type)

    def check(config: msgspec.Struct, data: bytes) -> None:
        del data
        require(parse(tomli_w.dumps(msgspec.to_builtins(config)).encode()) == config, "a configuration is read back")

    return Target(
        parse=parse,
        check=check,
        covers=(Home.load_config,),
        seeds=lambda: {
            "whole": tomli_w.dumps(_CONFIGS[config_type]).encode(),
            "bad setting": b"a=1",
        },
        codes=frozenset({"CONFIG_INVALID", "HOME_INVALID"}),
        words=(b"[limits]\n", b"[keys]\n", b"[[", b'"""', b"1979-05-27T07:32:00Z", b"inf", b"= {", b"\\u0000"),
        mutations=250,
        max_bytes=8192,
    )


def _check_policy(policy: Policy, data: bytes) -> None:
    require(policy.document == data, "a policy has one spelling")
    verify_policy(policy)
    require(policy.param > 1, "a policy lets the odds move")


def _policy_seeds() -> dict[str, bytes]:
    document, persons = make_policy().document, make_policy(accounting="per_person").document
    return {
        "usual": document,
        "narrow": make_policy(max_belief="0.50001", scales=(50, 10**6)).document,
        "persons": persons,
        "households": persons.replace(b'"subject":"person"', b'"subject":"household"').replace(
            b'"max_answers":0', b'"max_answers":7'
        ),
        "bad subject": document.replace(b'"subject":"person"', b'"subject":"household"'),
        "bad order": document.replace(b"2,3,", b"3,2,"),
        "bad limit": document.replace(b'"0.8"', b'"0.' + b"9" * 60 + b'"'),
    }


# --- studies ---------------------------------------------------------------------------------------------------------


def _parse_study(data: bytes) -> Study:
    return design(parse_study_file(text_of(data), "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")


def _check_study(study: Study, data: bytes) -> None:
    require(study.key == _parse_study(data).key, "a study has one name")
    require(len({canonical_bytes(ask.where) for ask in study.asks}) == len(study.asks) > 0, "no question twice")
    for ask in study.asks:
        require(parse_condition(describe(ask.where), HEALTH_DICTIONARY) == ask.where, "a question is asked by its text")
    verify_question(study.question)
    require(len(study.cells) == len(study.question.cells), "every cell has a name")
    for row in study.rows:
        require(all(0 <= place < len(study.asks) for place in row.asks), "a row names its questions")
    few = [ask.where for ask in study.asks[:20]]
    require(1 <= most_in(few, HEALTH_DICTIONARY) <= len(few), "somebody is in a group, nobody in more than there are")


_STUDY = b"""where: age >= 18
by:
  age: [18, 40, 65]
  sex: all
  region: {here: census_division = 'Ottawa', there: "census_division <> 'Ottawa'"}
count: {French: mother_tongue = 'French'}
of: all
estimate:
  - share: French
  - ratio: French
    reference: {sex: male}
  - rate_ratio: French
    event: procedure = 'angioplasty'
  - standardised_rate: [French]
    over: age
    weights: [0.5, 0.25, 0.25]
  - trend: French
    over: age
scale: 20
expect: {people: 100, share: 0.05, groups: [{sex: male, people: 7}]}
"""


def _study_seeds() -> dict[str, bytes]:
    return {
        "whole": _STUDY,
        "small": b"where: age >= 65\ncount: mother_tongue\n",
        "bad bands": _STUDY.replace(b"40", b"4"),
        "bad yaml": b"where: 'age",
        "bad column": _STUDY.replace(b"sex", b"sxe"),
    }


# --- ids -------------------------------------------------------------------------------------------------------------


def _parse_id(data: bytes) -> tuple[str, str]:
    """The form and the one spelling of an id: its form stands in the first line."""
    form, _, text = text_of(data).partition("\n")
    ids, problems = parse_ids([text], form)
    if problems:
        raise ValueError(problems[0])
    return form, ids[0].decode("ascii")


def _check_id(read: tuple[str, str], data: bytes) -> None:
    form, one_id = read
    require(one_id == one_id.upper() and one_id.isprintable(), "an id has one spelling, in ASCII")
    if form == "postal_address":
        line = f"{one_id[6:]} {one_id[:6]}"
        require(parse_ids([line], form)[0][0].decode("ascii")[:6] == one_id[:6], "an id begins with its postal code")
    else:
        require(not one_id or ID_FORMS[form](one_id) == one_id, "an id is read back as it is")
    require(bool(one_id) or not data.partition(b"\n")[2], "an empty text is no id, and no other")


# --- dictionary files ------------------------------------------------------------------------------------------------


def _parse_dictionary_file(data: bytes) -> Dictionary:
    """A file, and the one code list that lies beside it."""
    cut = Cut(data)
    folder = fresh_path()
    folder.mkdir()
    (folder / "dictionary.toml").write_bytes(cut.piece())
    (folder / "codes.csv").write_bytes(cut.rest())
    return read_dictionary(folder / "dictionary.toml")


def _check_dictionary_file(dictionary: Dictionary, data: bytes) -> None:
    del data
    text = dictionary_toml(dictionary)
    require(parse_dictionary(text, Path("dictionary.toml")) == dictionary, "a dictionary that is written is read back")
    require(
        parse_dictionary_document(dictionary_document(dictionary)) == dictionary,
        "a dictionary that is read can be published",
    )


_DICTIONARY_FILE = b"""agency = "Agency"
version = 1
id_form = "text"
linkage = "household"
[columns.age]
type = "integer"
description = "Age."
minimum = 0
maximum = 130
[columns.cause]
type = "code"
multi_valued = true
description = "Cause."
codes = "codes.csv"
[columns.work]
type = "code"
description = "Works."
description_fr = "Travaille."
asked_of = { not_asked = "no", one_in = 5, design_effect = 1.3 }
codes = [{ value = "yes", label = "Yes" }, { value = "no", label = "No", under = ["yes"] }]
[events.stay]
description = "Stays."
[events.stay.columns.admitted]
type = "date"
description = "Day."
"""
_CODE_LIST = b"value,label,label_fr,under\nI,Heart,,\nI21,Infarction,Infarctus,I\n"


def _dictionary_file_seeds() -> dict[str, bytes]:
    return {
        "whole": joined(_DICTIONARY_FILE) + _CODE_LIST,
        "spreadsheet": joined(_DICTIONARY_FILE) + b"\xef\xbb\xbf" + _CODE_LIST.replace(b"\n", b"\r\n"),
        "bad key": joined(_DICTIONARY_FILE.replace(b"maximum", b"most")) + _CODE_LIST,
        "bad circle": joined(_DICTIONARY_FILE) + _CODE_LIST.replace(b"Heart,,", b"Heart,,I21"),
        "bad parent": joined(_DICTIONARY_FILE) + _CODE_LIST.replace(b"Infarctus,I", b"Infarctus,J"),
        "bad text": joined(_DICTIONARY_FILE) + _CODE_LIST.replace(b"Infarctus", b"\xe9"),
        "bad toml": joined(b"[" * 4000),
        "bad empty": b"",
    }


# --- sources ---------------------------------------------------------------------------------------------------------

_LINKAGE = LinkageChain([LinkageKey(_FIXED)])
_CARD = "5584486673"


def _parse_census_source(data: bytes) -> None:
    path = fresh_path(".csv")
    path.write_bytes(data)
    try:
        registry, names, report = read_registry(
            PlainPlan(path, id_columns(CENSUS_DICTIONARY)),
            "load",
            _LINKAGE,
            made_names(1, 1),
            dictionary=CENSUS_DICTIONARY,
        )
        require(registry.size == report.linked, "the report counts the registry")
        counts = (len(names.persons), len(names.households))
        require(counts == (registry.person_count, registry.household_count), "every number has a name")
        require(report.rows == report.linked + report.without_card + report.rejected.count, "every row is counted once")
    finally:
        path.unlink()


def _parse_health_source(data: bytes) -> None:
    path, store = fresh_path(".csv"), fresh_path(".people")
    path.write_bytes(data)
    try:
        report = load_people(
            PlainPlan(path),
            store,
            _LINKAGE,
            dictionary=HEALTH_DICTIONARY,
            declared=Declared(DECLARED_STEP),
        )
        require(report.rows == report.loaded + report.without_card + report.rejected.count, "every row is counted once")
    finally:
        path.unlink()
        store.unlink(missing_ok=True)


def _parse_event_source(data: bytes) -> None:
    """People with long lists, and behind the first empty line their events."""
    people, _, stays = data.partition(b"\n\n")
    path = fresh_path(".csv")
    events, store = path.with_name(f"{event_worlds.SMALL.events[0].name}.csv"), path.with_suffix(".people")
    path.write_bytes(people + b"\n")
    events.write_bytes(stays)
    try:
        report = load_people(
            PlainPlan(path),
            store,
            event_worlds.CHAIN,
            dictionary=event_worlds.SMALL,
            declared=declared_of(event_worlds.SMALL, DECLARED_STEP, {}),
        )
        stay = report.events["stay"]
        taken = stay.loaded + stay.of_nobody + stay.without_card + stay.rejected.count
        require(stay.rows == taken, "every event is counted once")
        with PeopleStore(store, event_worlds.SMALL, threads=1) as read:
            require(read.declared.tables.keys() == {"code", "stay"}, "a store has the tables of its dictionary")
            require(read.size == report.places == report.loaded, "everybody is in the store")
    finally:
        path.unlink()
        events.unlink()
        store.unlink(missing_ok=True)


def _event_source_seeds() -> dict[str, bytes]:
    people, stays = b"health_card,age,code\nA,1,c1;c64\nB,2,\n", b"health_card,days\nB,1\nA,2\nb,\nZ,3\n"
    return {
        "events": people + b"\n" + stays,
        "wrong": people + b"C,3,c65\nA,1,c2\n\n" + stays + b"A,100\n,4\n",
        "bad none": people + b"\n" + b"health_card,days\n",
    }


def _census_source_seeds() -> dict[str, bytes]:
    head, nothing = ",".join(CENSUS_COLUMNS).encode(), b"," * len(CENSUS_DICTIONARY.names)
    row = f"{census_row(_CARD, '1', '1', mother_tongue='French')}\n".encode()
    return {
        "one": head + b"\n" + row,
        "bom": b"\xef\xbb\xbf" + head + b"\r\n" + row + b"\r\n,2,1" + nothing + b"\n",
        "quoted": head + b"\n" + b'"5584-486-673","1,1","x","English, French and other"' + nothing[1:] + b"\n" + row,
        "bad header": head.replace(b"person_id", b"person") + b"\n" + row,
    }


def _health_source_seeds() -> dict[str, bytes]:
    names = ",".join(HEALTH_COLUMNS).encode()
    row = f"{health_row(_CARD)}\n".encode()
    return {
        "one": names + b"\n" + row,
        "quoted": names
        + b"\n"
        + row.replace(b"Ottawa", b'"Stormont, Dundas and Glengarry"')
        + b"," * len(HEALTH_DICTIONARY.names)
        + b"\n",
        "bad empty": names + b"\n",
    }


TARGETS: Mapping[str, Target[Any]] = {
    "criteria": Target(
        parse=lambda data: _read(parse_condition, data, HEALTH_DICTIONARY),
        check=_check_condition,
        covers=(parse_condition, parse_syntax, parse_date, verify_size, condition_from_wire, verify_affordable),
        seeds=_criteria_seeds,
        codes=CRITERIA_CODES | {"CRITERIA_SYNTAX"},
        words=(
            *(name.encode() for name in HEALTH_DICTIONARY.names),
            *(b" and ", b" or ", b" not ", b" in (", b" between ", b"'", b"(", b")", b"--", b"/*", b"DATE '", b"<>"),
            *(
                b"'2010-02-29'",
                b"-9223372036854775808",
                b" is null",
                b" is not null",
                b" like 'type_%'",
                b"%'",
                b"==",
                b"&&",
                b" 2010-01-01",
                "\u201cmale\u201d".encode(),
                b"'stroke'",
                b"1e9",
                b"?",
                b"$$",
                b"::",
            ),
        ),
    ),
    "criteria_of_events": Target(
        parse=lambda data: _read(parse_condition, data, STAYS),
        check=verify_condition_on_events,
        covers=(parse_condition, parse_syntax, condition_from_wire),
        seeds=_event_seeds,
        codes=CRITERIA_CODES | {"CRITERIA_SYNTAX"},
        words=(
            *(name.encode() for name in STAYS.names),
            *(name.encode() for table in STAYS.events for name in (table.name, *table.names)),
            *(b"any(", b"count(", b" where ", b" under ", b" under (", b" not under ", b") >= 3", b") between 1 and 4"),
            *(b" and ", b" or ", b" not ", b"(", b")", b"'I21'", b"'I2%'", b"'I20-I25'", b", ", b".", b"exists(", b"0"),
        ),
    ),
    "question": Target(
        parse=lambda data: _read(parse_question, data, CENSUS_DICTIONARY),
        check=_check_question,
        covers=(parse_question, question_from_wire),
        seeds=_question_seeds,
        codes=QUESTION_CODES | {"QUESTION_SYNTAX"},
        words=_QUESTION_WORDS,
    ),
    "question_logged": Target(
        parse=lambda data: read_question(text_of(data)),
        check=lambda question, data: require(question.text.encode() == data, "a log spells a question in one way"),
        covers=(read_question,),
        seeds=lambda: {
            **{name: text for name, text in _question_seeds().items() if name in {"all", "one", "share"}},
            "table": b"mother_tongue by 'English', ('English and French', 'French'), rest",
            "bad order": b"mother_tongue by ('French', 'English'), rest",
            "bad spaces": b"mother_tongue by 'French',rest",
        },
        errors=(ValueError,),
        words=_QUESTION_WORDS,
    ),
    "dictionary_file": Target(
        parse=_parse_dictionary_file,
        check=_check_dictionary_file,
        covers=(read_dictionary, parse_dictionary, read_text, read_code_list, verify_codes),
        seeds=_dictionary_file_seeds,
        codes=frozenset({"DICTIONARY_INVALID"}),
        words=(
            *(b"[columns.", b"[events.", b"type = ", b'"code"', b'"date"', b"codes = ", b"under = [", b"minimum = "),
            *(b'"""', b"inf", b"nan", b"1e999", b"\\u0000", b"true", b"{}", b"[[", b";", b'"', b"\r\n"),
        ),
        mutations=250,
    ),
    "fraction": Target(
        parse=lambda data: parse_fraction(text_of(data)),
        check=_check_fraction,
        covers=(parse_fraction,),
        seeds=lambda: {
            "whole": b"1",
            "part": b"0.25",
            "smallest": b"0.000001",
            "bad exponent": b"1e-6",
            "bad digits": b"\xd9\xa0.\xd9\xa5",
            "bad nan": b"nan",
            "bad huge": b"1e999999999",
        },
        codes=frozenset({"INVALID_VALUE"}),
        words=(b"e-", b"nan", b"inf", b"_", b"0.", b"\xd9\xa1"),
        max_bytes=64,
    ),
    "max_belief": Target(
        parse=lambda data: parse_max_belief(text_of(data)),
        covers=(parse_max_belief,),
        seeds=lambda: {"usual": b"0.8", "long": b"0.5" + b"0" * 60 + b"1", "bad": b"1.0"},
        codes=frozenset({"INVALID_VALUE"}),
        max_bytes=80,
    ),
    "date": Target(
        parse=lambda data: parse_date(text_of(data)),
        check=lambda day, data: require(day.isoformat().encode() == data, "a date has one spelling"),
        covers=(parse_date,),
        seeds=lambda: {
            "usual": b"2010-03-31",
            "leap": b"2012-02-29",
            "bad day": b"2011-02-29",
            "bad week": b"2011-W01",
        },
        errors=(ValueError,),
        max_bytes=32,
    ),
    "times": Target(
        parse=_parse_times,
        check=_check_times,
        covers=(parse_since, parse_until),
        seeds=lambda: {
            "day": b"2026-03-31",
            "instant": b"2026-03-31T09:30:00",
            "minute": b"2026-03-31 09:30",
            "offset": b"2026-03-31T09:30:00-05:00",
            "first": b"0001-01-01T00:00:00+23:59",
            "last": b"9999-12-31T23:59:59-23:59",
            "last day": b"9999-12-31",
            "bad day": b"2026-02-29",
            "bad hour": b"2026-03-31T24:00",
            "bad offset": b"2026-03-31T09:30:00+24:00",
            "bad week": b"2026-W01-1",
        },
        codes=frozenset({"INVALID_VALUE"}),
        words=(b"T", b"Z", b"+00:00", b"-23:59", b"0000", b"9999-12-31", b"\xd9\xa1", b"\n", b".5"),
        max_bytes=48,
    ),
    "health_card": Target(
        parse=lambda data: parse_health_card(text_of(data)),
        check=lambda card, _: require(parse_health_card(card) == card and card.isascii(), "a card is ten digits"),
        covers=(parse_health_card,),
        seeds=lambda: {"plain": _CARD.encode(), "spaced": b"5584-486-673", "bad digit": b"5584486674"},
        errors=(ValueError,),
        max_bytes=32,
    ),
    "id": Target(
        parse=_parse_id,
        check=_check_id,
        covers=(parse_ids, parse_postal_address),
        seeds=lambda: {
            "quebec": b"quebec_health_card\nTREM 5457 1422",
            "digits": b"digits_luhn\n7992-739 8713",
            "text": b"text\n ab-12 ",
            "address": "postal_address\n5–1200, boul. St-Laurent O., Montréal (Québec) H2X 2S6".encode(),  # noqa: RUF001
            "bad address": b"postal_address\n12 Main St Ottawa",
            "bad form": b"passport\n12",
        },
        errors=(ValueError,),
        words=(b"postal_address\n", b"text\n", b"K1A 0B1", b"#", b" APT ", b"RR ", "½".encode(), b"\xcc\x81"),
        max_bytes=240,
    ),
    "identity": Target(
        parse=lambda data: parse_identity(text_of(data)),
        check=lambda identity, data: require(identity.uri.encode() == data, "an identity has one spelling"),
        covers=(parse_identity,),
        seeds=lambda: {"usual": b"tripartite://census-agency/census/node", "bad role": b"tripartite://a/auditor/b"},
        errors=(ValueError,),
        max_bytes=256,
    ),
    "reference": Target(
        parse=_parse_reference,
        covers=(Home.read,),
        seeds=lambda: {"environment": b"env:PATH", "bad file": b"file:a", "bad name": b"file:\0"},
        codes=frozenset({"SECRET_MISSING"}),
        words=(b"env:", b"file:", b"\0", b"=", b"\xff"),
        max_bytes=512,
    ),
    "key": Target(
        parse=_parse_key,
        check=_check_key,
        covers=(
            parse_base64,
            SigningKey.parse_text,
            VerifyKey.parse_text,
            UnsealingKey.parse_text,
            SealingKey.parse_text,
            parse_secret,
        ),
        seeds=_key_seeds,
        errors=(ValueError,),
        words=(b"ed25519-private ticket ", b"mlkem768-x25519-public ", b"secret linkage ", b"=", b"==", b"A"),
    ),
    "signature": Target(
        parse=_parse_signature,
        covers=(VerifyKey.verify_signature,),
        seeds=lambda: {"good": joined(_SIGNING.verify_key.raw, b"order") + _SIGNING.sign(b"order")},
        codes=frozenset({"BAD_SIGNATURE"}),
        errors=(ValueError,),
        max_bytes=512,
    ),
    "certificate": Target(
        parse=_parse_certificate,
        check=_check_certificate,
        covers=(PeerCertificate.parse_pem, parse_identity),
        seeds=_certificate_seeds,
        errors=(ValueError,),
        words=(b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n", b"\x30\x82", b"\x30\x80", b"\xa0\x03"),
    ),
    "bare_certificate": Target(
        parse=_parse_bare_certificate,
        covers=(certificate_fingerprint, certificate_expiry_ms),
        seeds=lambda: {"pem": _PEM, "bad two": 2 * _PEM, "bad half": _PEM[:300]},
        errors=(ValueError,),
    ),
    "caller": Target(
        parse=_parse_caller,
        check=lambda identity, _: require(identity == _REGISTERED.identity, "who calls is who was registered"),
        covers=(verify_caller,),
        seeds=_caller_seeds,
        codes=frozenset({"INSECURE_TRANSPORT", "CERTIFICATE_EXPIRED"}),
    ),
    "census_config": _config_target(CensusConfig),
    "health_config": _config_target(HealthConfig),
    "researcher_config": _config_target(ResearcherConfig),
    "policy": Target(
        parse=parse_policy,
        check=_check_policy,
        covers=(parse_policy, verify_policy, parse_max_belief),
        seeds=_policy_seeds,
        codes=frozenset({"INVALID_VALUE"}),
        words=(b'"scales":[', b"1e2", b"4294967296", b'"\\u0000"', b"[[", b"null", b"-1", b"strict"),
    ),
    "study": Target(
        parse=_parse_study,
        check=_check_study,
        covers=(parse_study_file,),
        seeds=_study_seeds,
        codes=frozenset({"STUDY_INVALID"}),
        words=(
            b"\n  - ",
            b": ",
            b"{",
            b"]",
            b"&a ",
            b"*a",
            b"!!python/name:os.system ",
            b"? ",
            b"|\n ",
            b"age",
            b"all",
        ),
        # Each is read by a YAML parser in Python, and designed twice.
        mutations=150,
        max_bytes=2048,
    ),
    "census_source": Target(
        parse=_parse_census_source,
        covers=(read_registry, verify_names, RejectedRows.verify_few, parse_health_card, parse_ids),
        seeds=_census_source_seeds,
        codes=frozenset({"LOAD_REFUSED"}),
        words=(b",", b'"', b'""', b"\r\n", b"\0", b"\xef\xbb\xbf", b"\xff", b"French", _CARD.encode(), b"\x1c"),
    ),
    "health_source": Target(
        parse=_parse_health_source,
        covers=(load_people, verify_names, RejectedRows.verify_few, parse_date),
        seeds=_health_source_seeds,
        codes=frozenset({"LOAD_REFUSED"}),
        words=(b",", b'"', b";", b"\r\n", b"\0", b"\xff", b"stroke", b"2010-02-29", _CARD.encode(), b"-2147483648"),
        mutations=120,
    ),
    "event source": Target(
        parse=_parse_event_source,
        covers=(load_people, ListReader.read),
        seeds=_event_source_seeds,
        codes=frozenset({"LOAD_REFUSED"}),
        words=(b",", b'"', b";", b"\n\n", b"\r\n", b"\0", b"\xff", b"c64", b"health_card", b"A"),
        mutations=120,
    ),
}
