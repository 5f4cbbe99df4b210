"""The census operator's commands about rules: show the policy in force, propose another one, adopt a proposal."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from broker_common.cli import emit
from broker_common.commands.options import Whole, home_option, json_option, usual_home_of
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.language import language_of_environment, phrase, said
from broker_common.privacy.policy import (
    MAX_POLICY_BYTES,
    MAX_SCALE,
    MAX_SCALES,
    Accounting,
    Policy,
    Subject,
    scales_text,
)
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.orders import verify_reason
from broker_common.values import Linkage
from census_node import texts
from census_node.assembly import CensusHome
from census_node.ledger.samples import bytes_of_samples
from census_node.operator.operating import Confirmation
from census_node.operator.proposals import (
    Change,
    Consequences,
    Proposal,
    consequences,
    draft,
    make_proposal,
    verify_linkage_kept,
    verify_subject,
)
from census_node.registry.loading import delay_warnings


@click.group(invoke_without_command=True)
@click.option("--home", type=click.Path(path_type=Path, file_okay=False), help="The census node's folder.")
@json_option
@click.pass_context
def policy(context: click.Context, home: Path | None, as_json: bool) -> None:
    """The rules in force (the same as 'policy show'), and how to change them."""
    if context.invoked_subcommand is None:
        _show_policy(home or usual_home_of(context), as_json)
    elif home is not None or as_json:
        # Given here, they hold for the command that follows, which may say otherwise.
        given = {"home": home, "as_json": as_json}
        context.default_map = {str(context.invoked_subcommand): {k: v for k, v in given.items() if v}}


@policy.command()
@home_option
@json_option
def show(home: Path, as_json: bool) -> None:
    """The policy in force, as it was signed and logged."""
    _show_policy(home, as_json)


def _show_policy(home: Path, as_json: bool) -> None:
    opened = CensusHome(home)
    people = opened.config.people
    in_force, result = opened.read(lambda state: (policy_in_force(state), _policy(state, people)))
    shown = {
        "max_belief": language_of_environment().exact(result["max_belief"]),
        "param": odds_text(result["param"]),
        "scales": said(scales_text(result["scales"])),
        "quote_lifetime": _duration(result["quote_lifetime_ms"]),
        "answer_retention": _duration(result["answer_retention_ms"]),
        "accounting": said(texts.ACCOUNTING[result["accounting"]], subject=said(result["subject"])),
        "linkage": said(texts.LINKAGE[result["linkage"]]),
        "declared": _declared_text(in_force),
        "max_answers": result["max_answers"] or said(texts.NO_END),
        "sample_retention": _duration(result["sample_retention_ms"]),
        "quota": _quota_text(in_force, people),
    }
    emit(as_json, result, said(texts.POLICY, **(result | shown)))


def _declared_text(policy: Policy) -> str:
    percent = policy.declared_linked_percent
    return said(texts.DECLARED_LINKED, percent=percent) if percent else said(texts.DECLARED_NOTHING)


def _policy(state: CensusState, people: int) -> dict[str, Any]:
    in_force = policy_in_force(state)
    assert state.adopted is not None  # noqa: S101 - a policy in force was adopted
    return {
        **msgspec.to_builtins(in_force),
        "policy_hash": state.policy_hash,
        "key_id": state.adopted.key_id,
        "param": number(in_force.param),
        "cap": in_force.cap,
        "quota_bytes": _quota_bytes(in_force, people),
    }


def _quota_bytes(policy: Policy, people: int) -> int | None:
    """Disk use of one researcher's samples, for a census with so many declared people; None without a quota."""
    return bytes_of_samples(people, people, policy.quota) if policy.quota else None


def _quota_text(policy: Policy, people: int) -> str:
    most = _quota_bytes(policy, people)
    if most is not None:
        return said(texts.QUOTA, answers=policy.quota, people=people, size=size_text(most))
    if policy.accounting == "strict":
        return said(texts.QUOTA_STRICT)
    return said(texts.QUOTA_NONE, size=size_text(bytes_of_samples(people, people, 1)), people=people)


# --- propose -----------------------------------------------------------------------------------------------------------


class _Scales(click.ParamType[tuple[int, ...]]):
    """`10-50`, `5,10,30`, or a mixture."""

    name = "scales"

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        scales: set[int] = set()
        for part in value.split(","):
            match = re.fullmatch(r" *([0-9]{1,7}) *(?:- *([0-9]{1,7}) *)?", part, re.ASCII)
            if match is None:
                self.fail(said(texts.SCALES_FORM, part=part), param, ctx)
            first, last = int(match[1]), int(match[2] or match[1])
            if not 1 <= first <= last <= MAX_SCALE or last - first >= MAX_SCALES:
                self.fail(said(texts.SCALES_RANGE, part=part, most=MAX_SCALES, largest=MAX_SCALE), param, ctx)
            scales.update(range(first, last + 1))
        return tuple(sorted(scales))


def _within(setting: str) -> Whole:
    """The range that the policy's own type allows for a setting."""
    (field,) = (field for field in msgspec.structs.fields(Policy) if field.name == setting)
    limits = msgspec.inspect.type_info(field.type)
    # Options of this kind are made for bounded numbers only.
    assert isinstance(limits, msgspec.inspect.IntType)  # noqa: S101 - see above
    assert limits.ge is not None  # noqa: S101 - see above
    assert limits.le is not None  # noqa: S101 - see above
    return Whole(limits.ge, limits.le)


def _number_options(command: Callable[..., None]) -> Callable[..., None]:
    """An option for every setting of the policy that is a plain number."""
    for setting, help_text in reversed(texts.SETTING_HELP.items()):
        command = click.option(f"--{setting.replace('_', '-')}", setting, type=_within(setting), help=help_text)(
            command
        )
    return command


@policy.command()
@home_option
@json_option
@click.option("--accounting", type=click.Choice(get_args(Accounting)), help=texts.ACCOUNTING_HELP)
@click.option("--subject", type=click.Choice(get_args(Subject)), help=texts.SUBJECT_HELP)
@click.option("--linkage", type=click.Choice(get_args(Linkage)), help=texts.LINKAGE_HELP)
@click.option("--max-belief", "max_belief", metavar="DECIMAL", help=texts.MAX_BELIEF_HELP)
@click.option("--scales", type=_Scales(), metavar="SCALES", help=texts.SCALES_HELP)
@_number_options
@click.option("--from", "source", type=click.Path(path_type=Path, dir_okay=False, exists=True), help=texts.FROM_HELP)
def propose(home: Path, as_json: bool, source: Path | None, **settings: Any) -> None:
    """Sign a policy that differs from the one in force. Nothing is logged, and nothing changes until it is adopted.

    Needs the private policy key. Says what adopting would mean and with which command it is done.
    """
    opened = CensusHome(home)
    key = opened.private_policy_key()
    changes = {name: value for name, value in settings.items() if value is not None}
    base = None if source is None else _document(source)

    def propose_from(state: CensusState) -> tuple[Policy, Consequences]:
        start = base or state.policy
        if start is None:
            raise InvalidRequestError(
                "INVALID_VALUE", name="--from", problem="is needed: no policy is in force", remedy=texts.FROM_REMEDY
            )
        proposed = draft(start, changes)
        # The policy in force may be signed again by a newer key.
        if proposed == state.policy and state.adopted is not None and state.adopted.key_id == key.key_id:
            raise RefusedError("POLICY_IN_FORCE", what=proposed.hash.hex())
        # Before it is signed: nobody could adopt it.
        verify_subject(proposed, state)
        verify_linkage_kept(proposed, state, opened.dictionaries)
        meaning = consequences(proposed, state)
        warnings = (*meaning.warnings, *delay_warnings(proposed, opened.config.people))
        return proposed, replace(meaning, warnings=warnings)

    proposed, meaning = opened.read(propose_from)
    proposal = make_proposal(proposed, key)
    file = opened.proposals.write(proposed, proposal)
    result = _proposal_json(proposed, proposal, file, meaning, opened.config.people)
    emit(as_json, result, _proposal_text(result, proposed, meaning, home, opened.config.people))


def _document(source: Path) -> bytes:
    with source.open("rb") as file:
        return file.read(MAX_POLICY_BYTES)


def _proposal_json(
    proposed: Policy, proposal: Proposal, file: Path, meaning: Consequences, people: int
) -> dict[str, Any]:
    return {
        "policy_hash": proposed.hash.hex(),
        "key_id": proposal.key_id,
        "file": str(file),
        "changes": [{"setting": change.setting, "old": change.old, "new": change.new} for change in meaning.changes],
        "max_belief": proposed.max_belief,
        "param": number(proposed.param),
        "cap": proposed.cap,
        "scale": proposed.usual_scale,
        "quota_bytes": _quota_bytes(proposed, people),
        "answers_left": meaning.answers_left,
        "shuts_down": meaning.shuts_down,
        "weaker": list(meaning.weaker),
        "warnings": list(meaning.warnings),
    }


def _proposal_text(result: Mapping[str, Any], proposed: Policy, meaning: Consequences, home: Path, people: int) -> str:
    whom = said(texts.LIMITED[proposed.subject])
    parts = [
        said(texts.PROPOSAL, **result),
        "\n".join(said(texts.CHANGE_ROW, **row) for row in (_change_head(), *map(_row, meaning.changes))),
        said(
            texts.CONSEQUENCES,
            **{
                **result,
                "max_belief": language_of_environment().exact(proposed.max_belief),
                "param": odds_text(result["param"]),
                "whom": whom,
            },
        ),
        said(
            texts.CHARGED_TO_ALL if meaning.answers_left is None else texts.ANSWERS_LEFT,
            **{**result, "charged": meaning.charged_units},
        ),
        said(texts.QUOTA_PROPOSED, quota=_quota_text(proposed, people)),
    ]
    if meaning.shuts_down:
        parts.append(said(texts.SHUTS_DOWN))
    elif meaning.is_shut:
        parts.append(said(texts.COULD_REOPEN) if meaning.fits else said(texts.STAYS_SHUT))
    parts += [said(texts.WEAKER, sentence=said(sentence)) for sentence in meaning.weaker]
    parts += [said(texts.WARNING, sentence=said(sentence)) for sentence in meaning.warnings]
    confirm = said(texts.CONFIRM_WORDS) if meaning.weaker else ""
    parts.append(said(texts.ADOPT_WITH, hash=result["policy_hash"], home=shlex.quote(str(home)), confirm=confirm))
    return "\n".join(parts)


def _change_head() -> dict[str, str]:
    return {name: said(head) for name, head in texts.CHANGE_HEAD.items()}


def _row(change: Change) -> dict[str, str]:
    return {"setting": change.setting, "old": _shown(change.old), "new": _shown(change.new)}


def _shown(value: Any) -> str:
    if value is None:
        return said(texts.NO_VALUE)
    return said(scales_text(value)) if isinstance(value, list | tuple) else str(value)


# --- adopt -------------------------------------------------------------------------------------------------------------


@policy.command()
@home_option
@json_option
@click.option("--confirm", is_flag=True, help=texts.CONFIRM_HELP)
@click.option("--reason", help=texts.REASON_HELP)
@click.argument("proposal", metavar="HASH_OR_FILE")
def adopt(home: Path, as_json: bool, confirm: bool, reason: str | None, proposal: str) -> None:
    """Put a proposed policy in force, durably; a running node asks by it from the next question on.

    HASH_OR_FILE is the hash that 'propose' said, its first 8 digits or more, or a proposal's file. Tickets quoted under
    the policy before are refused, uncharged, and their researchers quote again; what was charged before is answered.
    """
    if confirm != (reason is not None):
        raise click.UsageError(texts.CONFIRM_AND_REASON)
    opened = CensusHome(home)
    found = opened.proposals.find(proposal, opened.policy_keys())
    confirmation = None
    if reason is not None:
        confirmation = Confirmation(verify_reason(reason), opened.private_operator_key())
    done = opened.adopt(found, confirmation)
    result = {"policy_hash": done.policy_hash, "state": done.state, "log_size": done.log_size}
    emit(as_json, result, said(texts.ADOPTED[done.state], **result))


# --- shared with the other commands ------------------------------------------------------------------------------------


def policy_in_force(state: CensusState) -> Policy:
    """The policy in force.

    Raises:
        RefusedError: NOTHING_LOADED, there is none yet.
    """
    if state.policy is None:
        raise RefusedError("NOTHING_LOADED", what="policy", role="census")
    return state.policy


def number(value: Fraction) -> int | float:
    """For display: whole where it is whole, otherwise rounded up, so that it never understates."""
    if value.denominator == 1:
        return value.numerator
    near = float(value)
    return near if near >= value else math.nextafter(near, math.inf)


def odds_text(param: float) -> str:
    """A factor of odds for people: to the third decimal, rounded up."""
    return language_of_environment().exact(f"{math.ceil(param * 1000) / 1000:g}")


def size_text(size_bytes: int) -> str:
    """For display: a size on disk in the largest of TB, GB, MB, kB and bytes of which there is one, to one decimal, rounded up."""
    for text, size in (
        (phrase("{n:g} TB"), 10**12),
        (phrase("{n:g} GB"), 10**9),
        (phrase("{n:g} MB"), 10**6),
        (phrase("{n:g} kB"), 10**3),
    ):
        if size_bytes >= size:
            return said(text, n=math.ceil(10 * size_bytes / size) / 10)
    return said("{n} bytes", n=size_bytes)


def _duration(milliseconds: int) -> str:
    """For display: in the largest of days, hours, minutes and seconds that comes out whole."""
    for text, size in (
        ("{n} days", 86_400_000),
        ("{n} hours", 3_600_000),
        ("{n} minutes", 60_000),
        ("{n} seconds", 1000),
    ):
        if milliseconds % size == 0:
            return said(text, n=milliseconds // size)
    return said("{n} ms", n=milliseconds)
