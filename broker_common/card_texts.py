"""Every sentence that the commands about keys and cards say, in one place, so that another language can stand beside it."""

from __future__ import annotations

OWN = "{who}, card {serial}\n  fingerprint  {fingerprint}"
PEER = "knows {who}, card {serial}\n  fingerprint  {fingerprint}"
PROJECTS = "\n  projects     {projects}"
INBOX = "\n  inbox        {inbox}"
KEY = "  {purpose:<10} {key_id}  {state:<8}  from {from}  until {until}"
LINKAGE = "  linkage    {linkage}  in use    the chain that both agencies' records are linked by"
PURPOSES = "It is one of: {purposes}. The linkage key is changed with 'census relink' and 'health relink'."
NO_END = "replaced"
EXPIRES = "  (certificate ends {expires})"
CARD_WRITTEN = (
    "The card is in {file}. Whoever registers it compares the fingerprint with you on another way:\n  {fingerprint}"
)
ROTATED = """\
A new key for {purpose}, on card {serial}:
{table}
Peers hear of it at their next contact. Hand the card to those who may not be in contact before it is used:
  tripartite keys card --home {home} --to FILE
  fingerprint  {fingerprint}"""
KEY_GONE = (
    "The private {purpose} key that is in use is not here, so the new one is put to use at once. Peers that may not be in "
    "contact by then are handed the card."
)
CERTIFICATE_ENDED = (
    "The certificate in use has ended, so the new one is used at once. Peers cannot connect before they have it: hand every "
    "one of them the card."
)
SHORTER_WAIT = "Nothing was changed. Give a shorter time, or leave --in out."
NO_ROOM = "Nothing was changed. The first of them ends at {when}; 'tripartite keys list' shows them all."
UNFINISHED = (
    "The new key is on the card, but the policy in force is signed by the key before alone, and ends with it for whoever "
    "checks it. Finish it with 'tripartite census policy propose' and 'tripartite census policy adopt'."
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
REVOKED = "The {role} {name} is not known here any more, from now on."

TO_HELP = "Write the card to this file instead of printing it."
IN_HELP = "How long until the new key is put to use, like 7d, 12h or 0s; the usual time if left out, less if a certificate ends before, at once if the one before is lost."
HONOUR_HELP = "How long after that the key before is honoured; the usual time if left out."
REGISTER_HELP = """Register a peer by the card that its owner printed with 'keys card', or change what is known of one.

A card that follows the one that is known (signed by the same party, newer) is taken as it is. Any other replaces it only
with --replace and a --reason, which is logged: compare fingerprints first. A serving node obeys at once.
"""
RESEARCHER_HELP = "Instead of a card: the id of a registered researcher whose projects or inbox change."
PROJECT_HELP = "A study that the researcher may ask for; give it once for each. All of them, not only new ones: those that are not named are dropped."
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
MANY_PROJECTS = "A study that has ended needs no registration any more: leave it out."
REASON_HELP = "Why, for the log; auditors read it."
NO_KEYS = "an auditor has no keys"
NO_KEYS_REMEDY = "Give the home of a node or of a researcher."
OTHER_ORGANISATION = "is that of {found}, and config.toml says that this node works with {expected}"
OTHER_ORGANISATION_REMEDY = "Nothing was registered. Ask for the card of the organisation that config.toml names; if that was misspelt, correct it there."
