"""Every sentence that the census operator's commands say, in one place, so that another language can stand beside it."""

from __future__ import annotations

READY = "census node ready on {address}"
LOADING = "Loading the registry"
LOADED = """\
Loaded {linked} linked people of {rows} rows; {without_card} have no id, {rejected} rows were left out as wrong.
Census release {release} is in force."""
CHECKED = "Read {linked} linked people of {rows} rows; {without_card} have no id, {rejected} rows are wrong."
STATUS = """\
Census node: {state}
  process         {process}
  accounting      {accounting}, no belief about {whom} above {max_belief} (odds move by at most {param})
  answers         {answers}
  charged         {worst_charged} units; no belief can have passed {worst_belief}
  log             {log_size} entries
  release         {release}
  linkage         {linkage}
  policy          {policy_hash}"""
STATUS_NOTHING_LOADED = "nothing is loaded"
STATUS_RUNNING = "running"
STATUS_NOT_RUNNING = "not running"
STATUS_ACCOUNTING = {"strict": "strict", "per_person": "per_person with a budget for each {subject}"}
STATUS_COUNTED = """\
  counted         {units} of {cap} units: strict accounting counts all answers, those too that were charged to the
                  people in their samples alone; what it counts ends the service"""
STATUS_PEOPLE = "  people          {charged} {counted} charged so far; nothing left: {exhausted}"
STATUS_KEPT = "  kept samples    {count}, {size} on disk"
STATUS_ALERT = """\
  alert           more than {share} % of the {counted} charged so far have nothing left ({exhausted} of {charged}): new
                  answers leave them out, and nobody outside is told; 'alert_exhausted_share' sets when this is said"""
STATUS_ROSTER = "  roster          {number} of {health}, {state}, received {time}: {people} people, {places} places"
STATUS_ROSTER_IN_FORCE = "in force"
STATUS_ROSTER_LOST = "lost"
STATUS_ROSTER_STAGED = "staged"
STATUS_SHUT = "  shut down       {time}, {by}"
STATUS_SHUT_NOTE = ": {note}"
STATUS_SHUT_BY = {
    "answers": "because the policy's number of answers ({max_answers}) is reached",
    "budget": "by the budget",
    "earlier": "because nothing fitted under the policy in force then",
    "operator": "by the operator",
}
LIMITED = {"person": "one person", "household": "one household that stays as it is"}
COUNTED = {"person": "persons in the census", "household": "households"}
STATUS_WARNING = "  warning         {sentence}"
REPORT_CEILINGS = """\
Ceilings of belief about {whom}: what nobody can have passed, whatever the answers said
  believed before   by now, for the one charged most        at the limit"""
REPORT_CEILING = "  {prior:<18}{now:<40}{limit}"
REPORT_FROM_TO = "{down} to {up}"
REPORT_TYPICAL = """\
The typical case: about somebody known to be in every sample, who was believed 0.5 before
              answers   ceiling   on average   best guess right   {beyond}"""
REPORT_TYPICAL_ROW = "  {answers:<12}{count:<10}{ceiling:<10}{expected:<13}{right:<19}{beyond}"
REPORT_TYPICAL_TOO_MANY = "  {answers:<12}too many answers to compute"
REPORT_TYPICAL_NOW = "so far"
REPORT_TYPICAL_LIMIT = "at most"
REPORT_COLUMN = "{word:<19}"
REPORT_PASSES = "above {belief}"
REPORT_AT_WORST = """\
  So far: about the one charged most, by the worst mixture: as many of the given answers at the smallest scales as fit into
  that charge, the rest at larger ones; at most: at scale {scale}. Averages are no promise; ceilings are."""
REPORT_AT_WORST_HOUSEHOLD = """\
  Of a household whose members share a language more can be learned: for that there are the ceilings alone."""
REPORT_AT_SCALES = """\
  So far: at the scales that were asked for; at most: at scale {scale}. Averages are no promise; ceilings are."""
REPORT_CHANCE = "1 in {n}"
REPORT_CHANCE_LARGE = "{n} in 100"
REPORT_CHANCE_NONE = "never"
REPORT_SPREAD = """\
People by ceiling of belief (believed before: 0.5)
  ceiling           {counted}"""
REPORT_SPREAD_ROW = "  {band:<18}{people}"
REPORT_AT_REST = "0.5: not charged"
REPORT_BAND = "up to {high}"
REPORT_ABOVE = "above {high}"
REPORT_QUANTILES = "Of the {counted} charged, charge in units and ceiling"
REPORT_QUANTILE = "{units} ({ceiling})"
REPORT_QUANTILE_ROW = "  {share:<18}{charge}"
REPORT_QUANTILE_SHARE = "{share} % at most"
REPORT_QUANTILE_ALL = "the most"
REPORT_NOBODY = "nobody"
REPORT_STRICT = """\
Answers left
  {left} at scale {scale}: strict accounting charges everybody alike for every answer"""
REPORT_STRICT_LATE = """\
Answers left
  {left} at scale {scale}: strict accounting counts every answer there ever was"""
REPORT_FORECAST = """\
Forecast: further answers at scale {scale} until so many of the {counted} charged so far have no room for another one"""
REPORT_FORECAST_ROW = "  {share:<18}{middle} (nine times out of ten {early} to {late})"
REPORT_FORECAST_REACHED = "  {share:<18}they have none now"
REPORT_FORECAST_BEYOND = "more than {reach}"
REPORT_FORECAST_SHARE = "{share} % of {people}"
REPORT_FORECAST_NOTE = """\
  if the same people are asked about as often as before; who was charged most was so by chance too: rather too early."""
REPORT_FORECAST_NONE = """\
Forecast
  none: it takes {answers} answers and {people} people charged to say anything"""
REPORT_HELP = "Add the belief report: ceilings, the typical case, who stands where, a forecast."
PLOT_HELP = "Draw how many people stand at which ceiling of belief, as PNG; with --report."
PLOT_ALONE = "Give --plot together with --report."
PLOTTED = """\
Plot: {file}
  {text}"""
PLOT_TEXT = """\
Bar chart of how many stand at each ceiling of belief, from 0.5 to the limit {limit}. {bars} The highest \
ceiling is {worst}, the typical belief about the one charged most {typical}."""
PLOT_TEXT_BARS = "{name}: {counts}."
PLOT_TEXT_COUNT = "{count} {band}"
PLOT_TEXT_STRICT = "Strict accounting charges everybody alike: all stand at the same ceiling."
PLOT_TEXT_UNKNOWN = "not computed"
PLOT_TITLE = "How sure can anybody have become of one person's language?"
PLOT_X = "Ceiling of belief: what nobody can have passed who believed 0.5 before"
PLOT_Y = "Share of all (each line ten times the one below)"
PLOT_BARS = {"person": "persons in the census ({people})", "household": "households ({people})"}
PLOT_EVERYBODY = "everybody (strict accounting)"
PLOT_LIMIT = "limit of the policy: {belief}"
PLOT_TYPICAL = "typical belief about the one charged most: {belief}"
POLICY = """\
Policy {policy_hash}, signed by the census agency with key {key_id}
  accounting        {accounting}
  linkage           {linkage}
  linked share      {declared}
  max belief        {max_belief} (odds move by at most {param}; {cap} units)
  max answers       {max_answers}
  scales            {scales}
  release tick      {release_tick_ms} ms
  forward delay     {forward_delay_ms} ms
  quotes            stand for {quote_lifetime}, at most {open_quotes} open per researcher
  answers           wait {answer_retention} for their researcher
  samples           are kept {sample_retention} for an audit on site, where persons are charged
  quota             {quota}"""
QUOTA = "{answers} answers of one researcher at a time; on disk at most {size}, if the health agency declares {people} places"
QUOTA_NONE = "none: one researcher may fill the disk, {size} an answer, if the health agency declares {people} places"
QUOTA_STRICT = "none: strict accounting keeps no samples"
QUOTA_PROPOSED = "  quota             {quota}"
ACCOUNTING = {
    "strict": "strict: an answer is charged to everybody",
    "per_person": "per_person: an answer is charged to the people in its sample, a budget for each {subject}",
}
LINKAGE = {
    "complementary": "complementary: by the same id of a person at both agencies",
    "household": "household: by address; everybody who lives where somebody matches is counted",
    "nominative": "nominative: by names, in a register of the census agency's own",
}
DECLARED_LINKED = "{percent} % of the people in the census are linked, as the agency declares"
DECLARED_NOTHING = "the agency declares none"
NO_END = "no end"
SHUT_DOWN = "The service is shut down. Answers charged before still go out."
AUDITED_HELP = "Change the key although samples are kept: the auditor has been on site, or need not come."
SAMPLES_KEPT = "The samples of {count} charges are kept; after the change they cannot be compared with their registry."
RELINKING = "Changing the linkage key"
RELINKED = """\
The linkage key is changed: {people} people have new pseudonyms. Chain {linkage} is in force, {previous} was before.
Unless the health agency has this chain already: bring it {file}, out of band, and let it run
  tripartite health relink --home HOME --key-file FILE
Until chain {linkage} is in force at both agencies, questions wait, or are refused, and nothing is charged: compare the names."""
SHUT_DOWN_BEFORE = "The service was shut down already. Nothing was changed, and the reason given now is not logged."
REOPENED = "The service answers again. Earlier charges keep counting."

PROPOSAL = """\
Proposal {policy_hash}, signed with key {key_id}
  file              {file}
Changes"""
CHANGE_ROW = "  {setting:<20}{old:<24}{new}"
CHANGE_HEAD = {"setting": "", "old": "in force", "new": "proposed"}
NO_VALUE = "nothing"
CONSEQUENCES = """\
Consequences
  cap               {cap} units: no belief about {whom} above {max_belief} (odds move by at most {param})"""
ANSWERS_LEFT = """\
  charged so far    {charged} units
  answers left      {answers_left} at scale {scale}"""
CHARGED_TO_ALL = """\
  charged so far    {charged} units to everybody; what single persons were charged counts beside it
  answers left      depends on who is asked about"""
SHUTS_DOWN = "  shutdown          at once: it allows no answer beyond those already charged"
COULD_REOPEN = "  shutdown          the service stays shut down; 'census reopen' would be possible"
STAYS_SHUT = "  shutdown          the service stays shut down: it allows no answer beyond those already charged"
WEAKER = "  to be confirmed   {sentence}"
WARNING = "  warning           {sentence}"
ADOPT_WITH = """\
Nothing is in force or logged yet. To put it in force:
  tripartite census policy adopt {hash} --home {home}{confirm}"""
CONFIRM_WORDS = ' --confirm --reason "WHY"'
WARN_CHARGED = "what has been charged passes this cap already: the limit holds for no answer that was given before"
WARN_DICTIONARY = (
    "another dictionary was adopted since the registry in force was loaded; it comes into force with the next load ('tripartite "
    "census load')"
)
WARN_HOUSEHOLDS_MOVE = (
    "the limit holds for people who are in one and the same household in every load: about somebody who moves, and about a "
    "household that splits or that others join, more can be learned"
)
WARN_HOUSEHOLD_SIZE = "a household is never counted if a sample holds {households} of it"
HOUSEHOLD_OF = "{people} or more people, up to scale {scale}"
WARN_TICK_0 = "release tick 0 voids every fixed instant, so that timing can tell; for tests and benchmarks only"
WARN_RETENTION = (
    "an answer that is not collected within {retention} is removed; researchers without an inbox have to be quick"
)
WARN_SAMPLES = "who was in a sample is erased {retention} after its charge: an audit on site has to come sooner"
WARN_DELAY = "{name} is {value}, and the {declared} people that are declared for the registry need {least} or more"
ADOPTED = {
    "serving": "Policy {policy_hash} is in force. Tickets quoted under the one before are refused, uncharged.",
    "shutdown": "Policy {policy_hash} is in force. The service is shut down.",
}
PROPOSAL_PREFIX = "Give at least its first 8 digits, or a file as ./NAME."
PROPOSAL_NAMES = "Give the hash that 'census policy propose' said, or the proposal's file."
PROPOSAL_KEY = "is signed with key {key}, which is no policy key of this agency now"
PROPOSAL_AGAIN = "Make it again with 'census policy propose'."
HOUSEHOLD_BUDGET = "A budget per household"
HOUSEHOLD_STRICT = "means nothing under strict accounting, which charges everyone alike"
HOUSEHOLD_REMEDY = (
    "Add --accounting per_person, or, before the first answer was charged, --subject person. After it, lower --max-belief "
    "to let less be learned."
)
FROM_REMEDY = "Give a file with a whole policy as JSON, every setting named; see 'Policy' in docs/policy.md."
CONFIRM_REMEDY = "Leave --confirm and --reason out: this policy gives no less than the one in force."
CONFIRM_AND_REASON = "Give --confirm and --reason together, or neither."

RELEASE_HELP = "Name of the census release; by default the name in force."
REASON_HELP = "Why, for the log; auditors read it."
NO_REASON = "none was given"
CONFIRM_HELP = "Adopt a policy that gives less than the one in force; signed with the operator's key."
ACCOUNTING_HELP = "Who is charged for an answer: everyone, or the people in its sample."
SUBJECT_HELP = "Whose language one budget protects under per_person; strict charges everyone alike and has 'person'."
LINKAGE_HELP = "By what records are linked, as the dictionaries say; 'household' needs --subject household."
MAX_BELIEF_HELP = "No belief about one person may pass this; an exact decimal between 0.5 and 1."
SCALES_HELP = "Noise scales that may be asked for, like 10-50 or 5,10,30."
FROM_HELP = "Start from this file, a whole policy as JSON, instead of the policy in force."
SETTING_HELP = {
    "release_tick_ms": "Samples, outcomes and answers leave on multiples of this.",
    "forward_delay_ms": "A sample leaves the health node at the first tick this long after the question.",
    "quote_lifetime_ms": "How long a quote stands.",
    "open_quotes": "Open quotes per researcher.",
    "declared_linked_percent": "Of a hundred people in the census, so many are linked, as the agency declares; 0: nothing declared.",
    "max_answers": "The service shuts down after so many answers; 0: no such end.",
    "answer_retention_ms": "How long an answer waits for its researcher.",
    "researcher_answers": "Answers of one researcher whose samples are kept at the same time; 0: any number.",
    "sample_retention_ms": "How long the people of a sample are kept for an audit on site.",
}
SCALES_FORM = "'{part}' is neither a scale nor a range like 10-50."
SCALES_RANGE = "'{part}' is no range of at most {most} ascending scales from 1 to {largest}."

# --- making a home ---
NO_OVERSIGHT_KEY = "holds no public oversight key"
OVERSIGHT_REMEDY = "Take the file that 'tripartite auditor create' has written for the census agency, as it is."
PEOPLE_HELP = (
    "The most rows with an id that a load of the registry may hold, now and later; rounded up to a multiple of 524,288."
)
PLACES_HELP = "What the health agency declares: the time that its node has for a sample follows from it. If left out: as --people."
EVENTS_HELP = "Rows of events and long lists that the health agency declares in all: its node has longer for them."
WITNESS_HELP = "Folder on another disk or host that remembers how long the log was; made if it is not there."
OVERSIGHT_HELP = "The public oversight key that 'auditor create' has written."
FIRST_SUBJECT_HELP = (
    "Whose language one budget protects under per_person. If left out: a person's, or that of a household where the dictionary "
    "links by households. It stays what it was at the first charge."
)
FIRST_MAX_BELIEF_HELP = "No belief about one person may pass this; an exact decimal between 0.5 and 1."
FIRST_TICK_HELP = (
    "Answers leave on multiples of this; by default 250, or more for many people; 0 means at once and is for tests."
)
CREATED = """\
The home for the census node of {organisation} is in {home}; its keys are on this machine only.
  fingerprint of its card  {fingerprint}
  declared                 {people} people
  policy in force          {policy_hash}
Next:
  1. Hand your card over, and tell its fingerprint over another channel, to the health agency, the auditor and researchers:
       tripartite keys card --home {home} --to {organisation}.card
  2. Register theirs, each with the fingerprint that its owner tells you; a researcher's with --project:
       tripartite census register --home {home} CARD --fingerprint FINGERPRINT
  3. {linkage}
  4. Load your registry, and serve:
       tripartite census load --home {home}
       tripartite census serve --home {home}"""
CREATED_KEY = "Bring {file} to the health agency by hand: it is as secret as the data, and travels once."
CREATED_LINKED = "The linkage key is the health agency's; destroy the copy that was brought."
CREATED_NO_WITNESS = (
    "Without --witness, a restored backup is noticed only when the health node shows what it has seen: set witness_store in "
    "config.toml before serving."
)
CREATED_NO_OVERSIGHT = "Without --oversight, nobody can check the noise of answers: put the auditor's public key into keys/, and name it in config.toml."
