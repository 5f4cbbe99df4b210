"""Every sentence that the health operator's commands say, in one place, so that another language can stand beside it."""

from __future__ import annotations

READY = "health node ready on {address}"
LOADING = "Loading health data"
LOADED = """\
Loaded {loaded} people of {rows} rows; {without_card} have no id, {rejected} rows were left out as wrong.
Release {release} is in force. {places} places are declared, which need a forward delay of {least_forward_delay_ms} ms or more.
Census policy: {policy}"""
CHECKED = """\
Read {loaded} people of {rows} rows; {without_card} have no id, {rejected} rows are wrong.
{places} places are declared, which need a forward delay of {least_forward_delay_ms} ms or more.
Census policy: {policy}"""
FITS = "fits the declared places."
NOT_ASKED = "could not be asked for ({code}): {text}"
STATUS = """\
Health node of {organisation}
  serving       {serving}
  release       {release}
  linkage       {linkage}
  people        {people}
  places        {places} declared, which need a forward delay of {least_forward_delay_ms} ms or more
  policy        {policy}
  roster        {roster}
  questions     {tickets} taken, {open} on their way
  log           {log_size} entries"""
STATUS_TABLE = "  {table}: {rows} rows, {declared} declared"
STATUS_WARNING = """\
  note          another dictionary was adopted since the data in force was loaded; it comes into force with the next load
                ('tripartite health load')"""
ROSTER_SENT = "number {number}, at the census node since {time}"
ROSTER_UNDER_WAY = "number {number}, on its way to the census node"
ROSTER_REFUSED = "number {number}, refused by the census node ({code}); it is sent again, and questions wait"
ROSTER_MISMATCH = """\
number {number}, refused by the census node (LINKAGE_MISMATCH), and questions wait: the two agencies do not
                link alike. Compare 'linkage' in 'health status' and 'census status', and id_form in both dictionaries;
                see 'When the two chains differ' in docs/keys.md"""
ROSTER_NONE = "of the load in force: none yet; a serving node sends one"
RELINKING = "Changing the linkage key"
RELINKED = """\
The linkage key is changed: {people} people have new pseudonyms. Chain {linkage} is in force, {previous} was before.
Unless the census agency has this chain already: bring it {file}, out of band, and let it run
  tripartite census relink --home HOME --key-file FILE
Until chain {linkage} is in force at both agencies, questions wait, or are refused, and nothing is charged: compare the names."""
RELEASE_HELP = "A name for this extract of the health data; by default the name in force."

# Messages in the node's log.
DISAGREE = "the agencies do not agree on a key"
DISAGREE_REMEDY = (
    "compare 'keys list' of both homes; hand over the newer card ('keys card') and let the other agency 'register' it"
)
ROSTER_WAITS = "the census node does not have the roster of the load in force yet; it is sent again"
LATE = "a sample was not ready at its tick; it leaves at a later one"
LATE_REMEDY = "a longer forward_delay_ms in the policy, or a faster machine"
DISAGREED = "a key was not known between the agencies; cards have been exchanged, trying again"

# --- making a home ---
PLACES_HELP = (
    "The most people that a load may hold, now and later; rounded up to a multiple of 524,288. What others see of size "
    "follows from it: tell it the census agency, whose policy allows for it."
)
ROWS_HELP = (
    "The most rows that a load may hold of a table of events, or of a column of several values with more than 64 codes; rounded up "
    "likewise, and 524,288 for a table that is not named. May be given more than once."
)
NO_TABLE = "names {table}, which is no table of the dictionary"
TABLES_OF_ROWS = "Tables whose rows are declared with --rows: {tables}."
CENSUS_HELP = "Where the census node listens."
CENSUS_ORGANISATION_HELP = (
    "The census agency's organisation, as it tells you; no other card of a census agency is taken."
)
CREATED = """\
The home for the health node of {organisation} is in {home}; its keys are on this machine only.
  fingerprint of its card  {fingerprint}
  declared                 {places} places, {events} rows of other tables: tell it the census agency, which needs it for
                           'census create --places {places} --events {events}'; if its home stands already, it adopts a longer time
                           with 'census policy propose --forward-delay-ms'
Next:
  1. Hand your card over, and tell its fingerprint over another channel, to the census agency, the auditor and researchers:
       tripartite keys card --home {home} --to {organisation}.card
  2. Register theirs, each with the fingerprint that its owner tells you; a researcher's with --project:
       tripartite health register --home {home} CARD --fingerprint FINGERPRINT
  3. {linkage}
  4. Load your data, and serve:
       tripartite health load --home {home}
       tripartite health serve --home {home}"""
CREATED_LINKED = "The linkage key is the census agency's; destroy the copy that was brought."
CREATED_UNLINKED = """\
Take the linkage key that the census agency has made, brought by hand, and destroy the copy:
       tripartite health relink --home {home} --key-file FILE"""
