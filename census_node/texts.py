"""Every sentence that the census operator's commands say, in one place, so that another language can stand beside it."""

from __future__ import annotations

__all__ = [
    "ADOPTED",
    "ADOPT_WITH",
    "CHANGE_HEAD",
    "CHANGE_ROW",
    "CHARGES_NOT_DECIDED",
    "CHECKING_ON_SITE",
    "CONFIRM_AND_REASON",
    "CONFIRM_HELP",
    "CONFIRM_REMEDY",
    "CONFIRM_WORDS",
    "CONSEQUENCES",
    "COULD_REOPEN",
    "FROM_HELP",
    "FROM_REMEDY",
    "LINKAGE_KEYS_NOT_THERE",
    "LOADED",
    "LOADING",
    "MAX_BELIEF_HELP",
    "MEMBERSHIP_ERASED",
    "MEMBERSHIP_GONE",
    "NO_REASON",
    "NO_VALUE",
    "OTHER_HOME",
    "OTHER_HOME_REMEDY",
    "POLICY",
    "PROPOSAL",
    "PROPOSAL_AGAIN",
    "PROPOSAL_KEY",
    "PROPOSAL_NAMES",
    "PROPOSAL_PREFIX",
    "READY",
    "REASON_HELP",
    "REGISTRY_NOT_CHECKED",
    "RELEASE_HELP",
    "RELINKED",
    "REOPENED",
    "ROW",
    "SCALES_FORM",
    "SCALES_HELP",
    "SCALES_RANGE",
    "SETTING_HELP",
    "SHUTS_DOWN",
    "SHUT_DOWN",
    "SHUT_DOWN_BEFORE",
    "SNAPSHOT_NOT_CHECKED",
    "SNAPSHOT_NOT_COMMITTED",
    "STATUS",
    "STATUS_NOTHING_LOADED",
    "STATUS_SHUT",
    "STATUS_SHUT_BY",
    "STATUS_WARNING",
    "STAYS_SHUT",
    "STEPS_NEWER",
    "UNITS_NOT_CHECKED",
    "WARNING",
    "WARN_CHARGED",
    "WARN_MAX_SAMPLE",
    "WARN_RETENTION",
    "WARN_TICK_0",
    "WEAKER",
]

READY = "census node ready on {address}"
LOADING = "Loading the registry"
LOADED = """\
Loaded {linked} linked people of {rows} rows; {without_card} have no health card, {rejected} rows were left out as wrong.
Census release {release} is in force."""
STATUS = """\
Census node: {state}
  accounting      {accounting}, no belief about one person above {max_belief} (odds move by at most {param})
  answers         {answers}
  charged         {worst_charged} units; no belief can have passed {worst_belief}
  log             {log_size} entries
  release         {release}
  policy          {policy_hash}"""
STATUS_NOTHING_LOADED = "nothing is loaded"
STATUS_SHUT = "  shut down       {time}, {by}: {note}"
STATUS_SHUT_BY = {"budget": "by the budget", "operator": "by the operator"}
STATUS_WARNING = "  warning         {sentence}"
POLICY = """\
Policy {policy_hash}, signed by the census agency with key {key_id}
  accounting        {accounting}
  max belief        {max_belief} (odds move by at most {param}; {cap} units)
  scales            {scales}
  release tick      {release_tick_ms} ms
  forward delay     {forward_delay_ms} ms
  answer delay      {answer_delay_ms} ms
  quotes            stand for {quote_lifetime}, at most {open_quotes} open per researcher
  sample            at most {max_sample} people
  answers           wait {answer_retention} for their researcher"""
SHUT_DOWN = "The service is shut down. Answers charged before still go out."
RELINKING = "Changing the linkage key"
RELINKED = """\
The linkage key is changed: {people} people have new pseudonyms. Chain {linkage} is in force, {previous} was before.
Unless the health agency has this chain already: bring it {file}, out of band, and let it run
  tripartite health relink --home HOME --key-file FILE
Until both have changed, questions are refused and nothing is charged."""
SHUT_DOWN_BEFORE = "The service was shut down already. Nothing was changed, and the reason given now is not logged."
REOPENED = "The service answers again. What was charged before goes on counting."

PROPOSAL = """\
Proposal {policy_hash}, signed with key {key_id}
  file              {file}
Changes"""
CHANGE_ROW = "  {setting:<20}{old:<24}{new}"
CHANGE_HEAD = {"setting": "", "old": "in force", "new": "proposed"}
NO_VALUE = "nothing"
CONSEQUENCES = """\
Consequences
  cap               {cap} units: no belief about one person above {max_belief} (odds move by at most {param})
  charged so far    {charged} units
  answers left      {answers_left} at scale {scale}"""
SHUTS_DOWN = "  shutdown          at once: nothing that it admits fits what has been charged"
COULD_REOPEN = "  shutdown          the service stays shut down; 'census reopen' would be possible"
STAYS_SHUT = "  shutdown          the service stays shut down: nothing that it admits fits what has been charged"
WEAKER = "  to be confirmed   {sentence}"
WARNING = "  warning           {sentence}"
ADOPT_WITH = """\
Nothing is in force or logged yet. To put it in force:
  tripartite census policy adopt {hash} --home {home}{confirm}"""
CONFIRM_WORDS = ' --confirm --reason "WHY"'
WARN_CHARGED = "what has been charged passes this cap already: the limit holds for no answer that was given before"
WARN_TICK_0 = "release tick 0 voids every fixed instant, so that timing can tell; for tests and benchmarks only"
WARN_RETENTION = "an answer that is not collected within {retention} is removed; who has no inbox has to be quick"
WARN_MAX_SAMPLE = "max_sample falls from {old} to {new}: a health node with more people refuses every question"
ADOPTED = {
    "serving": "Policy {policy_hash} is in force. Tickets quoted under the one before are refused, uncharged.",
    "shutdown": "Policy {policy_hash} is in force. The service is shut down.",
}
PROPOSAL_PREFIX = "Give at least its first 8 digits, or a file as ./NAME."
PROPOSAL_NAMES = "Give the hash that 'census policy propose' said, or the proposal's file."
PROPOSAL_KEY = "is signed with key {key}, which is no policy key of this agency now"
PROPOSAL_AGAIN = "Make it again with 'census policy propose'."
FROM_REMEDY = "Give a file with a whole policy as JSON, every setting named; see 'Policy' in deploy/README.md."
CONFIRM_REMEDY = "Leave --confirm and --reason out: this policy is no weaker than the one in force."
CONFIRM_AND_REASON = "Give --confirm and --reason together, or neither."

RELEASE_HELP = "Name of the census release; by default the name in force."
REASON_HELP = "Why, for the log; auditors read it."
NO_REASON = "none was given"
CONFIRM_HELP = "Adopt a policy that is weaker than the one in force; signed with the operator's key."
MAX_BELIEF_HELP = "No belief about one person may pass this; an exact decimal between 0.5 and 1."
SCALES_HELP = "Noise scales that may be asked for, like 10-50 or 5,10,30."
FROM_HELP = "Start from this file, a whole policy as JSON, instead of the policy in force."
SETTING_HELP = {
    "release_tick_ms": "Everything leaves the census node on a multiple of this.",
    "forward_delay_ms": "The health node forwards a sample this long after the question.",
    "answer_delay_ms": "A charge is told this long after its header, at the next tick.",
    "quote_lifetime_ms": "How long a quote stands.",
    "open_quotes": "Open quotes per researcher.",
    "max_sample": "People in one sample at most; never below the population.",
    "answer_retention_ms": "How long an answer waits for its researcher.",
}
SCALES_FORM = "'{part}' is neither a scale nor a range like 10-50."
SCALES_RANGE = "'{part}' is no range of at most {most} ascending scales from 1 to {largest}."

# --- an audit on site ----------------------------------------------------------------------------------------------
CHECKING_ON_SITE = "Checking the ledgers of persons"
OTHER_HOME = "is not the home of the census log that was handed in"
OTHER_HOME_REMEDY = "Give the home of the census agency whose export is in DIR/census."
ROW = "row {place} of the history"
MEMBERSHIP_ERASED = (
    "Who was in the samples of {count} charges, and that nobody was skipped in them: their membership is erased, as the policy "
    "says. What they come to is taken from a snapshot."
)
MEMBERSHIP_GONE = "Of these, {count} were erased by the node while they were being looked at."
CHARGES_NOT_DECIDED = (
    "Whether {count} charges fell on everybody in their samples: what had been charged before could not be worked out."
)
UNITS_NOT_CHECKED = (
    "The census units of the samples of {count} charges: the load that they were charged on is not kept any more."
)
STEPS_NEWER = "{count} charges, loads or changes of the linkage key: they are newer than what was handed in."
SNAPSHOT_NOT_CHECKED = "The newest snapshot of the ledgers: it holds something that is newer than what was handed in."
SNAPSHOT_NOT_COMMITTED = (
    "What was charged before the first membership that is kept: no charge in the log commits to that snapshot yet."
)
LINKAGE_KEYS_NOT_THERE = (
    "Who is who after the change of the linkage key in entry {entry} of the census log: the keys are not in this home. That all "
    "charges came along was checked without names."
)
REGISTRY_NOT_CHECKED = "Whether the registry's cards, units and languages are true: no audit can say."
