"""Every sentence that these commands say, in one place, so that another language can stand beside it."""

from __future__ import annotations

# --- keys and cards ---
OWN = "{who}, card {serial}\n  fingerprint  {fingerprint}"
PEER = "knows {who}, card {serial}\n  fingerprint  {fingerprint}"
PROJECTS = "\n  projects     {projects}"
INBOX = "\n  inbox        {inbox}"
KEY = "  {purpose:<10} {key_id}  {state:<8}  from {from}  until {until}"
LINKAGE = "  linkage    {linkage}  in use    the chain that both agencies' records are linked by"
PURPOSES = "It is one of: {purposes}. The linkage key is changed with 'census relink' and 'health relink'."
NO_END = "replaced"
EXPIRES = "  (certificate ends {expires})"
CARD_WRITTEN = "The card is in {file}. The operator who registers it compares the fingerprint with you over another channel, such as the telephone:\n  {fingerprint}"
ROTATED = """\
A new key for {purpose}, on card {serial}:
{table}
Peers hear of it at their next contact. Hand the card to those who may not be in contact before it is used:
  tripartite keys card --home {home} --to FILE
  fingerprint  {fingerprint}"""
KEY_GONE = (
    "The private {purpose} key in use is missing, so the new one is used at once. Hand the card to peers that may "
    "not be in contact by then."
)
CERTIFICATE_ENDED = (
    "The certificate in use has ended, so the new one is used at once. Peers cannot connect before they have it: "
    "hand the card to each of them."
)
SHORTER_WAIT = "Nothing was changed. Give a shorter time, or leave --in out."
NO_ROOM = "Nothing was changed. The first of them ends at {when}; 'tripartite keys list' shows them all."
UNFINISHED = (
    "The new key is on the card, but the policy in force is signed by the previous key alone and stops verifying "
    "when that key ends. Finish it with 'tripartite census policy propose' and 'tripartite census policy adopt'."
)
REGISTERED = "Registered {who}, card {serial}, from now on.\n  fingerprint  {fingerprint}"
DROPPED = "\n  dropped      {dropped}"
COMPARE = "\nIf the fingerprint was not compared with the card's owner yet, do it now."
# An agency is known by its organisation.
WHO = {
    "researcher": "researcher {name} of {organisation}",
    "health": "health agency {organisation}",
    "census": "census agency {organisation}",
}
REVOKED = "The {role} {name} is no longer known here, from now on."

CARD_TO_HELP = "Write the card to this file instead of printing it."
IN_HELP = "How long until the new key is put to use, like 7d, 12h or 0s; the usual time if left out, less if a certificate ends before, at once if the one before is lost."
HONOUR_HELP = "How long after that the key before is honoured; the usual time if left out."
REGISTER_HELP = """Register a peer by the card that its owner printed with 'keys card', or change what is known of one.

A card that follows the one that is known (signed by the same party, newer) is taken as it is. Any other replaces it only
with --replace and a --reason, which is logged: compare fingerprints first. A serving node obeys at once.
"""
RESEARCHER_HELP = "Instead of a card: the id of a registered researcher whose projects or inbox change."
PROJECT_HELP = "A study that the researcher may ask for; give it once for each. All of them, not only new ones: projects that are not named are dropped."
FINGERPRINT_HELP = "The fingerprint that the card's owner told you; any other card is refused."
REPLACE_HELP = "Take a card that does not follow the one that is known, for example after a loss of keys."
INBOX_HELP = "Where the researcher's inbox listens, at a port of its own; empty when they only collect."
CARD_OR_RESEARCHER = "Give a card, or --researcher with the id of one who is registered."
REPLACE_AND_REASON = "Give --replace and --reason together, or neither."
RESEARCHERS_ONLY = "Only researchers have projects and inboxes."
PROJECT_NEEDED = "Give at least one --project: without one, the researcher could ask nothing."
REVOKE_HELP = """Know a peer no longer, at once.

Every further call of the peer is refused, on open connections too; what is on its way is not charged any more, and answers
that wait are not handed out. Registering again makes it known again.
"""
OWNERS = {"researcher": "a researcher", "health": "the health agency", "census": "the census agency"}
CARD_OF = "is that of {owner}"
EITHER = "{one} or {other}"
CARDS_HERE = "Give the card of {owners}. Nothing was registered."
MANY_PROJECTS = "A study that has ended needs no registration: leave it out."
REASON_HELP = "Why, for the log; auditors read it."
NO_KEYS = "an auditor has no keys"
NO_KEYS_REMEDY = "Give the home of a node or of a researcher."
OTHER_ORGANISATION = "is the card of {found}, but config.toml says that this node works with {expected}"
OTHER_ORGANISATION_REMEDY = "Nothing was registered. Ask for the card of the organisation that config.toml names; if that was misspelt, correct it there."

# --- new homes ---
ORGANISATION_HELP = "Your organisation, as it will stand in your certificate and on your card."
ORIGIN_HELP = "Name of your log, which stands in every checkpoint: like a web address of yours, without blanks."
ADDRESS_HELP = "Host and port that your node listens on, and that its peers call."
FIRST_DICTIONARY_HELP = "The dictionary to begin with, which is copied into the home, with its code lists, and adopted."
LINKAGE_FILE_HELP = "The other agency's linkage key file, brought by hand. Destroy the copy afterwards."
HEALTH_HELP = "Whose health log is audited, by organisation. Needed where several health agencies are trusted."
OVERSIGHT_TO_HELP = "Where to write the public oversight key. If left out: keys/oversight.pub in the home."
NO_PORT = "has no port that peers could call"
NO_PORT_REMEDY = "Give HOST:PORT with a port from 1 to 65535."
AUDITOR_CREATED = """\
The auditor's home is in {home}; its oversight key is on this machine only.
Next:
  1. Hand {oversight} to the census agency. It is public; the file beside it is not.
  2. Trust everybody's cards, each with the fingerprint that its owner tells you:
       tripartite auditor register --home {home} CARD --fingerprint FINGERPRINT"""
NO_DICTIONARY_YET = (
    "Without --dictionary nothing can be loaded yet: write dictionary.toml in the home (docs/dictionaries.md), then run "
    "'tripartite dictionary adopt --home {home}'."
)
LINKAGE_BEGUN = """\
{file} holds the linkage key now. The first load is made with it, and so must be the other agency's:
take it this file, by hand, unless the key came from there."""

# --- dictionaries ---
CHECK_HOME_HELP = (
    "An agency's home: check FILE, or else its own dictionary.toml, and that the agency can load data under it."
)
SEARCH_HELP = "Only where this word stands, in names, codes and labels; letter case and accents do not matter."
UNDER_HELP = "Only this code and the codes that stand under it."

CODES_HELP = (
    "A code list for a column of the draft: COLUMN=FILE.csv, or TABLE.COLUMN=FILE.csv. May be given more than once."
)
ID_HELP = "The column that holds the id, by its name in the files; it is left out. May be given more than once."
DRAFT_TO_HELP = "The file to write. Otherwise standard output."
CODES_FORM = "'{text}' is not COLUMN=FILE."

# check
DICTIONARY_CHECKED = """\
{file} can be published: version {version} of {agency}
  ids        {id_form}, linkage {linkage}
  hash       {hash}"""
NO_AGENCY = "an agency without a name"
COLUMN = "  {name}  {kind}"
CODE_COUNT = "{n:,} codes"
CODE_LEVELS = "{n:,} codes in {levels} levels"
EVENTS = "  {name}  (events)"
NO_FRENCH = "{n:,} descriptions and labels have no French: the English ones stand in for them."

# diff
SAME_DICTIONARY = "The two say the same."
NEEDS_LOAD = "Data that was loaded under {old} must be loaded again before it is served under {new}:"
NEEDS_NO_LOAD = "Nothing has to be loaded again; people read other words:"
CHANGE = "  {sentence}\n      {effect}"

# adopt
ADOPTED = "Adopted: version {version}, hash {hash}."
LOAD_NOW = "Data is served under it after the next load: tripartite {role} load --home {home}"
NO_DICTIONARY = "only a health or census agency publishes a dictionary"
NO_DICTIONARY_REMEDY = "Give the home of an agency with --home."

# draft
DRAFTED = "The draft is in {file}. Write what its TODOs ask for, then: tripartite dictionary check {file}"

# a node's own
NOTHING_FOUND = "'{word}' is in no name, description, code or label."
UPGRADE_DICTIONARY_HELP = (
    "The dictionary that the data in force was loaded under; usually dictionary.toml in the home. The one for a home "
    "made by 'init' is in deploy/examples/ontario."
)
UPGRADED = """\
{home} is upgraded: its log has format {format} from here on and keeps every charge.
The dictionary of the data in force is adopted: {dictionary}"""
NOTHING_TO_UPGRADE = "{home} has this version already: nothing was changed."

# --- loads ---
CHECK_HELP = "Read everything and report, and load nothing."
LOAD_CHECKED = "Nothing was loaded: this was a check. What was loaded before is still in force."
REJECTED_FILE = "Every row that was left out is listed in {file}."
FIRST_LOAD = "No earlier load has left figures to compare with."
SAME_LOAD = "Nothing has changed since the previous load: every row is the same."
EQUAL_FIGURES = "No figure has changed since the previous load; the rows, or how they are written, have."
CHANGED_SINCE = "Since the previous load:"
SIZE_CHANGED = "  {what}: {before:,} before, {now:,} now"
SHARE_CHANGED = "  {what}: {before:g} % before, {now:g} % now"
CODES_VANISHED = "  {of}: no row has these codes now: {codes}"
CODES_APPEARED = "  {of}: these codes are new: {codes}"
MUCH_CHANGED = "WARNING: {count} of these changed by much. Make sure that the load is whole before you rely on it."
EVENTS_READ = "  {table}: {loaded:,} events of {rows:,} rows; {without_card:,} have no id, {of_nobody:,} belong to nobody, {rejected:,} were left out as wrong"
VALUES_READ = "  {column}: {of_people:,} values of people in {rows:,} rows; {without_card:,} have no id, {without_value:,} have no value, {rejected:,} were left out as wrong"
OF_NOBODY = "  WARNING: most events of {table} belong to nobody. Do both tables have the same id, written the same way?"
FIGURE_NAMES = {
    "rows": "rows",
    "people": "people",
    "rejected_percent": "rejected rows",
    "events": "events of {of}",
    "missing_percent": "rows without {of}",
}

# --- dashboard ---
DASHBOARD_AT = "dashboard on {address}"
