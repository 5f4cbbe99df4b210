"""Every way a request can fail: one closed table of reasons, each with its family, sentence and hint.

    BrokerError
     |-- InvalidRequestError   the caller's fault; the same request will fail again      exit 3
     |-- RefusedError          a sound request that budget, policy or state forbids      exit 4
     |-- PeerUnavailableError  another node is down, slow, or not the node we expect     exit 5
     |-- InternalError         our own fault: a bug, a full disk                         exit 6
     |                         a damaged or rolled-back store: stopped for good          exit 7
     `-- StateUnknownError     a write whose outcome we cannot know; the node stops      exit 6

Invariants. A reason code never changes its meaning. The public sentence is built from the table and from `details`
only, and `details` must never carry language data, linkage figures, sample sizes or another person's record: error
text is part of the leakage surface. To add a reason: one row in `REASONS`; `broker_common.rpc.status` has those
whose gRPC status is not their family's.
A French table can stand beside this one: codes and details travel on the wire, sentences are made by the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes of every `tripartite` command (DESIGN 10)."""

    OK = 0
    AUDIT_FAILED = 1
    USAGE = 2
    INVALID_REQUEST = 3
    REFUSED = 4
    PEER_UNAVAILABLE = 5
    INTERNAL = 6
    # Until a person acts: starting again would end the same way. A service manager must not try.
    STOPPED = 7


class BrokerError(Exception):
    """A failure with a stable code. Raise one of the families below, or `error_for(code, ...)` when reading the wire."""

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, code: str, /, **details: str | int) -> None:
        reason = REASONS[code]
        if not isinstance(self, reason.family):
            raise TypeError(f"{code} belongs to {reason.family.__name__}, not {type(self).__name__}")
        self.code = code
        # A serialised SignedRefusal, where a census node refuses a sample.
        self.signed_refusal = b""
        self.exit_code = exit_code_of(code)
        self.details: dict[str, str] = {
            # A phrase stays one: it can be said in another language.
            name: value if isinstance(value, str) else str(value)
            for name, value in details.items()
        }
        super().__init__(f"{code}: {self.text}")

    @property
    def text(self) -> str:
        """One sentence for a person, safe to show to the caller."""
        return REASONS[self.code].text.format_map(_spoken(self.details))

    def said(self, translate: Callable[[str], str]) -> tuple[str, str]:
        """Sentence and hint in another language: `translate` gives the text that stands for an English one."""
        reason = REASONS[self.code]
        details = _spoken(self.details)
        for name in _OUR_WORDS & details.keys():
            told = translate(self.details[name])
            if told != self.details[name]:
                # French has no-break spaces of its own. The rest may still quote a stranger.
                details[name] = _shown(told, "\u00a0")
        return translate(reason.text).format_map(details), translate(self._hint).format_map(details)

    @property
    def hint(self) -> str:
        """The reader's next step."""
        return self._hint.format_map(_spoken(self.details))

    @property
    def _hint(self) -> str:
        # A hint that says what to type instead helps more than the table's.
        return _INSTEAD if self.details.get("instead") else REASONS[self.code].hint

    @property
    def for_operator(self) -> bool:
        """True when only the operator of the node that it happened in can use it: peers are told INTERNAL."""
        return self.code in _FOR_OPERATOR

    @property
    def stops_node(self) -> bool:
        """True when a node that meets this must stop serving: its store or its knowledge of it cannot be trusted."""
        return self.code in _STOPPING

    @property
    def ends_ticket(self) -> bool:
        """True when a census node that says this of a ticket has not charged it and never will.

        Everything else (a key, a card, a message, a peer) is wrong between the agencies: the ticket stays as good as it is.
        TICKET_REUSED is said of a ticket that was charged, too, when it comes with another sample.
        """
        return self.code in _ENDS_TICKET

    def as_json(self) -> dict[str, dict[str, str]]:
        """The error object that every command prints under `--json`."""
        return {"error": {"code": self.code, "text": self.text, "hint": self.hint}}


class InvalidRequestError(BrokerError):
    """The caller's fault: malformed, unknown, expired or unauthorised. Nothing was charged."""

    exit_code = ExitCode.INVALID_REQUEST


class RefusedError(BrokerError):
    """A sound request that the policy, the budget or the service's state forbids. Nothing was charged."""

    exit_code = ExitCode.REFUSED


class PeerUnavailableError(BrokerError):
    """Another node did not answer in time, or answered as somebody else."""

    exit_code = ExitCode.PEER_UNAVAILABLE


class InternalError(BrokerError):
    """Our own fault. Nothing about the request is wrong."""

    exit_code = ExitCode.INTERNAL


class StateUnknownError(BrokerError):
    """A durable write may or may not have happened: the node must stop and reload, never guess."""

    exit_code = ExitCode.INTERNAL


class _Blanks(dict[str, str]):
    """Details missing from an error that came over the wire leave a visible blank instead of a second failure."""

    def __missing__(self, key: str) -> str:
        return "?"


def _spoken(details: Mapping[str, str]) -> _Blanks:
    """Details for a sentence. They may quote a stranger's file: nothing in it moves a cursor or is no text at all."""
    return _Blanks({name: _shown(value) for name, value in details.items()})


def _shown(text: str, also: str = "") -> str:
    return "".join(each if each.isprintable() or each in also else "?" for each in text)


@dataclass(frozen=True, slots=True)
class Reason:
    """One row of the table: whose fault it is, what to say, and what to do about it."""

    family: type[BrokerError]
    text: str
    hint: str


# Details that are our own words. The others quote somebody, and a quotation is not translated.
_OUR_WORDS = frozenset(
    {"agency", "expected", "found", "instead", "peer", "problem", "remedy", "role", "scales", "subject", "what"}
)
_INSTEAD = "{instead}"
# The most of a peer's words that our terminal shows.
_MAX_DETAIL_CHARACTERS = 500
_STOPPING = frozenset({"FORMAT_OLD", "FORMAT_UNKNOWN", "INTEGRITY", "ROLLED_BACK", "STORE_FAILED", "STATE_UNKNOWN"})
# Starting again would end the same way, and trying for ever would hide that somebody has to look.
_FOR_GOOD = frozenset({"FORMAT_OLD", "FORMAT_UNKNOWN", "INTEGRITY", "ROLLED_BACK"})
_FOR_OPERATOR = frozenset({"FORMAT_OLD", "FORMAT_UNKNOWN", "INTEGRITY", "ROLLED_BACK", "SECRET_MISSING"})
_ENDS_TICKET = frozenset(
    {
        "BUDGET_EXHAUSTED",
        "DICTIONARY_CHANGED",
        "POLICY_MISMATCH",
        "QUESTION_SYNTAX",
        "QUOTA_REACHED",
        "RELEASE_MISMATCH",
        "ROSTER_NOT_IN_FORCE",
        "SCALE_REFUSED",
        "SERVICE_SHUT_DOWN",
        "SLOT_UNUSABLE",
        "TICKET_EXPIRED",
        "UNKNOWN_PROJECT",
        "UNKNOWN_RESEARCHER",
        "UNKNOWN_VALUE",
        "UNKNOWN_VARIABLE",
    }
)
_CRITERIA_HINT = (
    "Run 'tripartite researcher dictionary' for the published columns and codes. Language goes into --count, not here."
)

REASONS: Mapping[str, Reason] = {
    # --- criteria and questions ------------------------------------------------------------------------------------
    "CRITERIA_SYNTAX": Reason(
        InvalidRequestError,
        "The condition cannot be read: {problem}.",
        "Write it like: age >= 65 and procedure = 'angioplasty'. Allowed: = <> < <= > >= in, between, like, under, is null, and, "
        "or, not, ( ), any(...), count(...).",
    ),
    "CRITERIA_TOO_LARGE": Reason(
        InvalidRequestError,
        "The condition is too large: {problem}.",
        "Split the study into several questions, or use in (...) instead of a long chain of or.",
    ),
    "CRITERIA_TOO_DEAR": Reason(
        InvalidRequestError,
        "Finding the people of this condition takes more work than one question may use; about {terms} comparisons "
        "of this kind would fit.",
        "Use fewer comparisons, ranges instead of many single values, or several questions. The limit follows from "
        "the policy's forward delay and the declared size of the health data, not from who matches. Nothing was "
        "charged.",
    ),
    "UNKNOWN_COLUMN": Reason(
        InvalidRequestError, "There is no column '{column}'.", "Did you mean: {nearest}? " + _CRITERIA_HINT
    ),
    "UNKNOWN_EVENTS": Reason(
        InvalidRequestError,
        "There are no events '{events}'.",
        "Did you mean: {nearest}? Run 'tripartite researcher dictionary' for the published columns and events.",
    ),
    "UNKNOWN_CODE": Reason(
        InvalidRequestError,
        "Column '{column}' has no code '{value}'.",
        "Did you mean: {nearest}? Published codes: {codes}",
    ),
    "WRONG_TYPE": Reason(
        InvalidRequestError,
        "Column '{column}' holds {expected}, so it cannot be compared with {found}.",
        "Dates are written '2010-03-31', whole numbers without quotes, codes in single quotes.",
    ),
    "WRONG_OPERATOR": Reason(
        InvalidRequestError,
        "Column '{column}' holds {expected}; '{operator}' is not defined for it.",
        "Codes know =, <>, in, like and is null, and under if codes stand under others; numbers and dates =, <>, in, is null, <, <=, >, "
        ">= and between.",
    ),
    "UNKNOWN_VARIABLE": Reason(
        InvalidRequestError,
        "There is no language variable '{variable}'.",
        "Did you mean: {nearest}? Or ask for 'all', every linked person.",
    ),
    "UNKNOWN_VALUE": Reason(
        InvalidRequestError,
        "Language variable '{variable}' has no value '{value}'.",
        "Did you mean: {nearest}? Published values: {codes}",
    ),
    "QUESTION_SYNTAX": Reason(
        InvalidRequestError,
        "The question cannot be read: {problem}.",
        "Write it like: mother_tongue = 'French', mother_tongue in ('French', 'English'), or: all",
    ),
    "TOO_MANY_CELLS": Reason(
        InvalidRequestError,
        "The question has {cells} cells; the census node answers {served} in one question.",
        "Ask for fewer cells at a time. Each question is charged separately.",
    ),
    # The file's name carries the line, the problem is a sentence.
    "STUDY_INVALID": Reason(InvalidRequestError, "{file}: {problem}", "{remedy}"),
    "RUN_INVALID": Reason(InvalidRequestError, "{file}, line {number}: {problem}", "{remedy}"),
    "STUDY_NOT_RUN": Reason(
        InvalidRequestError,
        "Nothing has been asked for the study of {file} in this home.",
        "Run it: 'tripartite study run {file}'. If it was changed since, questions that are equal keep their answers.",
    ),
    "STUDY_RUNNING": Reason(
        RefusedError,
        "Another study of this home is running.",
        "Wait for it to end, then run this one. Nothing was asked.",
    ),
    "STUDY_UNFINISHED": Reason(
        RefusedError,
        "Questions of {file} have no answer yet.",
        "Run it without --again until all have. Nothing was asked.",
    ),
    "INVALID_VALUE": Reason(InvalidRequestError, "{name} {problem}.", "{remedy}"),
    "UNCONFIRMED": Reason(
        InvalidRequestError,
        "{problem} The question was not asked.",
        "Nothing was charged. Add --yes to ask all the same; --dry-run shows price and warnings and asks nothing.",
    ),
    # --- messages, identities and keys -----------------------------------------------------------------------------
    "MALFORMED_MESSAGE": Reason(
        InvalidRequestError, "The message is malformed: {problem}.", "Nothing was charged. Use a current client."
    ),
    "BAD_SIGNATURE": Reason(
        InvalidRequestError,
        "The signature of the {subject} is not valid.",
        "It was altered in transit or signed with another key. Nothing was charged. Ask its signer to send it again.",
    ),
    "UNKNOWN_KEY": Reason(
        InvalidRequestError,
        "The key '{key}' is not registered for the {subject}.",
        "'tripartite keys list' shows the keys of a home and those that it knows of its peers. Hand over your card, "
        "'tripartite keys card', or ask for a newer one.",
    ),
    "UNKNOWN_RESEARCHER": Reason(
        InvalidRequestError,
        "Researcher '{researcher}' is not registered here.",
        "Ask the operators of both agencies to register your card and your project: 'tripartite census register' and "
        "'tripartite health register'.",
    ),
    "UNKNOWN_PROJECT": Reason(
        InvalidRequestError,
        "Project '{project}' is not registered for researcher '{researcher}'.",
        "Give a registered one with --project, or ask the operators of both agencies to register it: "
        "'tripartite census register --researcher ID --project P', and the same at health, with every --project that is to "
        "stay: projects that are not named are dropped.",
    ),
    "WRONG_ROLE": Reason(
        InvalidRequestError,
        "A {role} may not call {rpc}.",
        "See protos/README.md for who may call what, and check which certificate this command uses.",
    ),
    "WRONG_ORGANISATION": Reason(
        InvalidRequestError,
        "The {subject} was not made by the organisation that sent it.",
        "Each organisation sends only what it signed itself. Nothing was charged.",
    ),
    "INSECURE_TRANSPORT": Reason(
        InvalidRequestError,
        "The connection is not mutual TLS 1.3 with a recognised certificate.",
        "Update the client's TLS library, and make sure that the other side has registered your current card: "
        "'tripartite keys card'.",
    ),
    "CERTIFICATE_EXPIRED": Reason(
        InvalidRequestError,
        "The TLS certificate of the {subject} has expired.",
        "Its owner makes a new one with 'tripartite keys rotate tls' and hands the card to the peers. Nothing was "
        "charged. If it should still be valid, the node's clock is wrong: 'When the clock was wrong' in "
        "docs/recover.md.",
    ),
    "CARD_OUTDATED": Reason(
        InvalidRequestError,
        "The card of {party} is not newer than the one known here.",
        "Nothing was changed. Its owner prints the current one with 'tripartite keys card'.",
    ),
    "CARD_UNRELATED": Reason(
        InvalidRequestError,
        "The card of {party} does not follow the one known here: the known identity key did not sign it.",
        "Nothing was changed. Compare its fingerprint with its owner over another channel; if the card is theirs, register it with "
        "--replace, at an agency also with --reason.",
    ),
    "COSIGNED_AHEAD": Reason(
        InvalidRequestError,
        "The cosignature by {witness} has a time in the future.",
        "It was not kept. One of the two clocks is wrong by an hour or more: see 'When the clock was wrong' in "
        "docs/recover.md.",
    ),
    "LOG_NAME_TAKEN": Reason(
        InvalidRequestError,
        "The card of {party} names its log {log}, which is the log of {owner}.",
        "Nothing was changed. Cosignatures are known by a log's name, so no two parties share one, not even after a "
        "revocation. Ask for the card of a home whose log has another name.",
    ),
    "CARD_MISSING": Reason(
        InvalidRequestError,
        "This home has not announced a card, so no peer can know its keys.",
        "Make a home with 'tripartite researcher create', or a whole deployment with 'tripartite init DIR'.",
    ),
    "CARD_UNREADABLE": Reason(
        InvalidRequestError,
        "The card {file} cannot be read: {problem}.",
        "A card is the whole file that its owner writes with 'tripartite keys card --to FILE'. Ask for it again.",
    ),
    "NOT_REGISTERED": Reason(
        InvalidRequestError,
        "Nobody is registered here as {party}.",
        "'tripartite keys list' shows the registered parties. A new peer prints its card with 'tripartite keys card'; it is registered with "
        "'tripartite researcher register', 'tripartite health register' or 'tripartite census register'.",
    ),
    "FINGERPRINT_MISMATCH": Reason(
        InvalidRequestError,
        "The card's fingerprint is {found}, not the one that was given.",
        "Compare the fingerprint with the card's owner over another channel. Nothing was registered.",
    ),
    "SEALED_WRONGLY": Reason(
        InvalidRequestError,
        "The {subject} cannot be opened with this node's key.",
        "It was sealed to another key, or bound to another ticket or policy. Nothing was charged.",
    ),
    "COMMITMENT_MISMATCH": Reason(
        InvalidRequestError,
        "The {subject} is not the one that was committed to.",
        "Send exactly what was committed to, with the same nonce. Nothing was charged.",
    ),
    "BAD_FRAMES": Reason(
        InvalidRequestError,
        "The frames are wrong: {problem}.",
        "The whole roster was refused; send it again from the start.",
    ),
    "ROSTER_REUSED": Reason(
        InvalidRequestError,
        "Roster {number} was already sent with other content.",
        "The roster in force stays. Was the health node's home restored from a copy? See 'When a node refuses to start' in "
        "docs/recover.md; the next load sends a roster with a new number.",
    ),
    "ROSTER_OLD": Reason(
        InvalidRequestError,
        "A roster with a higher number than {number} was sent before.",
        "The newer one stays. Was the health node's home restored from a copy? See 'When a node refuses to start' in "
        "docs/recover.md.",
    ),
    "BAD_SAMPLE": Reason(
        InvalidRequestError,
        "The sample is not one bit for each declared place: {problem}.",
        "The whole sample was refused and nothing was charged; send it again, made from the roster in force.",
    ),
    "UNKNOWN_QUERY": Reason(
        InvalidRequestError,
        "No query {query} is known here.",
        "Check the query id: 'tripartite researcher answers' lists yours.",
    ),
    "ANSWER_EXPIRED": Reason(
        InvalidRequestError,
        "The answer to {query} was kept until its retention ended and has been removed.",
        "It can no longer be fetched. A new question gets a new answer and is charged again.",
    ),
    # --- tickets ---------------------------------------------------------------------------------------------------
    "TICKET_EXPIRED": Reason(
        InvalidRequestError,
        "The ticket has expired.",
        "Ask again: a new quote and a new ticket are made for you. If that one has expired as well, a node's clock is wrong: "
        "tell the operators, and refer them to 'When the clock was wrong' in docs/recover.md.",
    ),
    "TICKET_REUSED": Reason(
        InvalidRequestError,
        "This query id or ticket was already used for something else.",
        "Ask again: every question needs its own ticket. Nothing was charged twice.",
    ),
    "POLICY_MISMATCH": Reason(
        InvalidRequestError,
        "The ticket was made under another policy than the one in force.",
        "Quote again to see the policy in force, then ask again.",
    ),
    "RELEASE_MISMATCH": Reason(
        InvalidRequestError,
        "The ticket names census release '{asked}', but the service answers from '{served}'.",
        "Quote again to see the census release in force, then ask again.",
    ),
    "LINKAGE_MISMATCH": Reason(
        RefusedError,
        "The two agencies do not link their records the same way: only one of them has changed the key, or their dictionaries name "
        "different forms of ids or linkages. Nothing was charged.",
        "Ask again when they do; their operators know when.",
    ),
    "ROSTER_NOT_IN_FORCE": Reason(
        InvalidRequestError,
        "The health agency's data were replaced while the question was on its way, or the census node does not have their roster "
        "yet. Nothing was charged.",
        "Ask again: the roster of the data in force is sent automatically, and the new question waits for it.",
    ),
    "SLOT_UNUSABLE": Reason(
        InvalidRequestError,
        "The noise slot in the ticket is not reserved for this researcher.",
        "Quotes end when they expire or the service restarts. Ask again: a new quote is made for you.",
    ),
    # --- policy, budget and state ----------------------------------------------------------------------------------
    "SCALE_REFUSED": Reason(
        RefusedError,
        "The policy does not allow the scale {scale}.",
        "Allowed scales are {scales}. A larger scale means more noise and a lower price.",
    ),
    "BUDGET_EXHAUSTED": Reason(
        RefusedError,
        "The remaining privacy budget does not pay for an answer at scale {scale}.",
        "A larger scale costs less: run 'tripartite researcher quote' with a larger --scale to see what still fits.",
    ),
    "QUOTA_REACHED": Reason(
        RefusedError,
        "You have {quota} answers whose samples the census agency keeps, as many as its policy allows one researcher.",
        "The next question can be asked at {time} UTC at the earliest. Earlier answers cost nothing to read again: 'tripartite "
        "researcher answers'.",
    ),
    "TOO_MANY_QUOTES": Reason(
        RefusedError,
        "You have asked the census node for more quotes than it gives one researcher at a time.",
        "Try again in {retry_seconds} seconds; 'tripartite researcher ask' waits for that automatically, within --wait.",
    ),
    "SERVICE_SHUT_DOWN": Reason(
        RefusedError,
        "The service has shut down: the census agency has stopped it, it has given as many answers as it may, or one more "
        "could let somebody become surer of one person's language than the limit that the agency has set.",
        "No question is answered unless the census agency reopens the service. Answers already charged can still be fetched with "
        "'tripartite researcher answers --collect'.",
    ),
    "POLICY_IN_FORCE": Reason(
        RefusedError,
        "The policy {what} is in force already.",
        "Nothing was changed. 'tripartite census policy show' prints it; 'tripartite census policy propose --help' lists "
        "what can be changed.",
    ),
    "POLICY_WEAKER": Reason(
        RefusedError,
        "The policy gives less than the one in force: {problem}.",
        'Propose another one, or, if it is meant, give --confirm --reason "..." where the operator\'s key is. Nothing '
        "was changed.",
    ),
    "SUBJECT_FIXED": Reason(
        RefusedError,
        "Since the first answer was charged, budgets are for each {subject}, and this cannot be changed.",
        "The charges of persons do not show what their households were counted for, or the reverse. Propose a policy "
        "with --subject {subject}; to allow less to be learned about each, lower --max-belief, or end the service with 'tripartite census shutdown'.",
    ),
    "LINKAGE_FIXED": Reason(
        RefusedError,
        "Since the first load, records are linked by linkage '{name}', and this cannot be changed.",
        "Propose a policy with --linkage {name}. Another linkage needs a separate deployment, with a separate budget.",
    ),
    "NOTHING_FITS": Reason(
        RefusedError,
        "The service stays shut down: the policy allows no answer beyond those already charged.",
        "Propose a policy that allows a larger scale, a higher cap or more answers ('tripartite census policy propose'), adopt "
        "it ('tripartite census policy adopt', with --confirm where it is weaker), then reopen.",
    ),
    "NOT_SHUT_DOWN": Reason(
        RefusedError, "The service is not shut down.", "There is nothing to reopen; see 'tripartite census status'."
    ),
    "BUSY": Reason(
        RefusedError, "The node is working on as many questions as it accepts.", "Try again in {retry_seconds} seconds."
    ),
    "NOTHING_LOADED": Reason(
        RefusedError, "No {what} has been loaded.", "The operator loads it with 'tripartite {role} load'."
    ),
    "NOTHING_ADOPTED": Reason(
        RefusedError,
        "The {role} agency has adopted no dictionary.",
        "Its operator writes one and adopts it with 'tripartite dictionary adopt'; data is loaded under it.",
    ),
    "DICTIONARY_CHANGED": Reason(
        RefusedError,
        "The question was written with another dictionary of the {role} agency than the one in force.",
        "{changes} Nothing was charged. Ask again: the dictionary in force is fetched automatically.",
    ),
    "LOADING": Reason(RefusedError, "Another load is running in this home.", "Wait for it to end, then try again."),
    "POLICY_TOO_NARROW": Reason(
        RefusedError,
        "The census policy does not fit the places that are declared for the health data: {problem}.",
        "The census operator must raise it ('tripartite census policy propose {remedy}'): criteria that take longer "
        "would reveal how many people match.",
    ),
    "LOAD_REFUSED": Reason(
        InvalidRequestError, "Nothing was loaded: {problem}.", "{remedy} What was loaded before is still in force."
    ),
    "LINKING_REFUSED": Reason(
        InvalidRequestError, "{file} was not linked: {problem}.", "{remedy} Nothing was written."
    ),
    "LINKING_NOT_INSTALLED": Reason(
        InvalidRequestError,
        "'tripartite census link' needs '{package}', which is not installed here.",
        "Install it with pip install 'tripartite[link]'; no other command needs it.",
    ),
    "DOCUMENT_UNREADABLE": Reason(
        InvalidRequestError,
        "{file} is not a document of the policy lab, or was changed afterwards.",
        "Give the folder that 'tripartite lab evaluate', 'table' or 'sensitivity' wrote with --out, as they wrote it.",
    ),
    "RESULTS_INTERNAL": Reason(
        InvalidRequestError,
        "{file} was computed from a data file that nobody has declared public or synthetic: an assessment is published, and such results must not be.",
        "If the data are public or synthetic, declare that: 'standing: public' or 'standing: synthetic' in the run file, or --standing, and "
        "run it again. Otherwise leave the folder out.",
    ),
    "LAB_NOT_INSTALLED": Reason(
        InvalidRequestError,
        "'tripartite lab' needs '{package}', which is not installed here.",
        "Install it with pip install 'tripartite[lab]'; no node needs it.",
    ),
    "LAB_PROCESS_ENDED": Reason(
        InternalError,
        "A process of the evaluation was killed, most often because the machine ran out of memory.",
        "Run it again with --out and fewer --processes: finished parts are kept, and the run continues where it stopped.",
    ),
    "LINKING_NOT_LEARNED": Reason(
        InvalidRequestError,
        "Nothing was linked: {problem}.",
        "The files may be too small, or about different people. Other rules of training, or fewer columns under compared, may help: "
        "docs/linkage.md. Nothing was written.",
    ),
    # --- the policy lab --------------------------------------------------------------------------------------------
    # The file's name carries the line, the problem is a sentence.
    "SENSITIVITY_REFUSED": Reason(InvalidRequestError, "No sensitivity was estimated. {file}: {problem}", "{remedy}"),
    "CTGAN_NOT_INSTALLED": Reason(
        InvalidRequestError,
        "Training needs '{package}', which is not installed here.",
        "It is a separate installation under a separate licence: 'make .venv/.ctgan' (docs/lab/sensitivity.md). "
        "Without it, give synthetic rows from any generator with --generated FILE.",
    ),
    "LICENCE_NOT_ACCEPTED": Reason(
        InvalidRequestError,
        "{package} has a licence that must be accepted before use; it was shown above.",
        "Read it, and give --accept-licence if your use is within it. Without it, give synthetic rows from any generator with --generated FILE.",
    ),
    "RELINK_REFUSED": Reason(
        InvalidRequestError, "The linkage key was not changed: {problem}.", "{remedy} The key before is still in force."
    ),
    "AUDIT_FIRST": Reason(
        RefusedError,
        "The linkage key was not changed: samples are kept, and after the change an audit on site could no longer "
        "compare their people with the registry on which they were charged.",
        "Let the auditor come first ('tripartite audit replay DIR --home AUDITOR --on-site CENSUS_HOME'), then give --audited.",
    ),
    "ALREADY_RUNNING": Reason(
        RefusedError, "Another process already serves {home}.", "Stop it first, or use another --home."
    ),
    "PORT_TAKEN": Reason(
        RefusedError,
        "Cannot listen on {address}.",
        "Another program uses the port, or it is not a HOST:PORT of this machine. Stop the other program, give "
        "another --port, or change address in config.toml and tell the peers.",
    ),
    # --- set-up ----------------------------------------------------------------------------------------------------
    "CONFIG_INVALID": Reason(
        InvalidRequestError,
        "{file} is not a valid configuration: {problem}.",
        "Compare it with 'Settings' in docs/settings.md, or with a whole one in deploy/samples.",
    ),
    # The file's name carries the line, the problem is a sentence.
    "DICTIONARY_INVALID": Reason(InvalidRequestError, "In {file}: {problem}", "{remedy}"),
    "DICTIONARY_OLD": Reason(
        InvalidRequestError,
        "The dictionary has version {version}, but version {newest}, with another meaning, was adopted already.",
        "Nothing was changed. Give the dictionary a version above {newest}; only labels may change under a version.",
    ),
    "DICTIONARY_MISSING": Reason(
        InvalidRequestError,
        "The dictionary under which the data in {home} was loaded is not here.",
        "Nothing was changed. Give its file with --dictionary; if questions about another load are in progress, let them end first, with the "
        "program that the home was made with.",
    ),
    "DICTIONARY_UNUSABLE": Reason(
        InvalidRequestError,
        "Data cannot be stored under this dictionary: '{column}' {problem}.",
        "Change that in the dictionary; see docs/dictionaries.md. What was loaded before is still in force.",
    ),
    "HOME_INVALID": Reason(InvalidRequestError, "{home} cannot be used as the {role} home: {problem}.", "{remedy}"),
    "EXPORT_DIFFERS": Reason(
        InvalidRequestError,
        "{file} differs from what an export of this home would write.",
        "Keep the folder: it may show that a log was changed. Export to a new one.",
    ),
    "FILE_UNUSABLE": Reason(
        InvalidRequestError,
        "{file} cannot be used: {problem}.",
        "Check the path, the permissions and the space on its disk, then try again.",
    ),
    "SECRET_MISSING": Reason(
        InvalidRequestError,
        "The key reference '{reference}' does not lead to the key that is needed: {problem}.",
        "Put the key back, or say under [keys] in config.toml where it is: 'file:PATH' (relative to the home) or "
        "'env:NAME'. 'tripartite keys list' shows which key is needed; another key cannot replace it. If it is lost, "
        "'tripartite keys rotate' makes the next one.",
    ),
    "LINKAGE_KEY_MISSING": Reason(
        InvalidRequestError,
        "'{reference}' does not begin with the linkage keys that the log names (chain {chain}).",
        "Restore the keys that were there, one per line, oldest first; the other agency has the same ones.",
    ),
    "KEY_MISSING": Reason(
        InvalidRequestError,
        "The private {what} key is needed for this but is missing: '{reference}', {problem}.",
        "Put it there for this one command, or name another place as {name} under [keys] in config.toml, 'file:PATH' or "
        "'env:NAME'.",
    ),
    "NOT_INSTALLED": Reason(
        InvalidRequestError,
        "'{role}' cannot be used: the package '{package}' is not installed here.",
        "Install '{package}' to use it; the other commands do not need it.",
    ),
    # --- peers -----------------------------------------------------------------------------------------------------
    "PEER_UNAVAILABLE": Reason(
        PeerUnavailableError,
        "The {peer} node does not answer.",
        "Check that it is running ('tripartite up DIR' starts all three on one machine), that its operator has registered "
        "your card, and that you have registered its current card; then try again.",
    ),
    "PEER_FAILED": Reason(
        PeerUnavailableError,
        "The {peer} node has an internal fault ({reason}).",
        "Its operator must mend it. The question is not lost: ask with --again, or collect later.",
    ),
    "PEER_MISBEHAVED": Reason(
        PeerUnavailableError,
        "The {peer} node sent something it should not: {problem}.",
        "Tell its operator; the query id and the node's log say which message it was.",
    ),
    "NOT_WITNESSED": Reason(
        PeerUnavailableError,
        "The census node waits for the health agency to cosign its log; until then no quote and no answer leaves.",
        "Check that the health node is running and can reach the census node; then try again. A question that was "
        "charged is answered after that: 'tripartite researcher answers --collect'.",
    ),
    "PROMISE_BROKEN": Reason(
        PeerUnavailableError,
        "The census agency broke a promise that it made in a receipt: {problem}.",
        "Keep the receipt, which is signed, and show it to the auditor ('tripartite audit export').",
    ),
    "ANSWER_PENDING": Reason(
        PeerUnavailableError,
        "The answer to {query} has not arrived within the time given.",
        "It is not lost: fetch it later with 'tripartite researcher answers --collect', or submit the same ticket again "
        "with 'tripartite researcher ask --again {query}', which also says if it was refused.",
    ),
    # --- our own fault ---------------------------------------------------------------------------------------------
    "INTEGRITY": Reason(
        InternalError,
        "The stored state does not match the log: {problem}.",
        "The node stays shut down. Find the row for it under 'When a node refuses to start' in docs/recover.md, and "
        "restore only what that row names.",
    ),
    "FORMAT_UNKNOWN": Reason(
        InternalError,
        "{home} was made by another version of this program: format {found}, where this version reads format {known}.",
        "Continue with the version that made it, or make a new home with 'tripartite init': nothing is carried over, "
        "and charges in the old home are not known in the new one.",
    ),
    "FORMAT_OLD": Reason(
        InternalError,
        "{home} was made by an earlier version of this program.",
        "Copy the folder, then upgrade it: 'tripartite upgrade --home {home}'. All charges are kept.",
    ),
    "ROLLED_BACK": Reason(
        InternalError,
        "This log is older than what {witness} has seen of it, or differs from it: {problem}.",
        "The node stays shut down; otherwise later charges would be forgotten. Restore the newest copy of the home; see 'When a "
        "backup was restored' in docs/recover.md.",
    ),
    "SAMPLE_LOST": Reason(
        InternalError,
        "The answer to a charged question cannot be made: its sample, its noise secret or its load is lost or damaged, or was "
        "loaded under another dictionary.",
        "The charge stands. Ask again: a new question gets a new ticket.",
    ),
    "STORE_FAILED": Reason(
        InternalError,
        "Something could not be written to disk, so nothing was answered, released or changed.",
        "Free space there or repair the disk, then try again; restart the node if it stopped.",
    ),
    "INTERNAL": Reason(InternalError, "The node failed unexpectedly.", "Give the operator the time and the query id."),
    "STATE_UNKNOWN": Reason(
        StateUnknownError,
        "The node cannot know whether its last write happened, so it stopped.",
        "The operator checks that the disk works and has space, and restarts the node: it reads its log and "
        "continues from there. 'tripartite census status', 'health status' or 'keys list' shows whether an order was "
        "taken: if not, give it again. Ask a question again with its query id, 'ask --again', to fetch its answer.",
    ),
}


def exit_code_of(code: str) -> ExitCode:
    """Exit code of a command that fails with this code."""
    return ExitCode.STOPPED if code in _FOR_GOOD else REASONS[code].family.exit_code


def error_for(code: str, details: Mapping[str, str]) -> BrokerError:
    """The error that a code from the wire stands for. An unknown code is the peer's fault, and is said to be."""
    reason = REASONS.get(code)
    if reason is None:
        return PeerUnavailableError("PEER_MISBEHAVED", peer="remote", problem=f"unknown error code {code[:40]!r}")
    return reason.family(code, **{name: _printable(value) for name, value in details.items()})


def _printable(text: str) -> str:
    """A stranger's words for our terminal: cut, and with nothing in them that a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text[:_MAX_DETAIL_CHARACTERS])
