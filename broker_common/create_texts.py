"""Every sentence that the commands about new homes say, in one place, so that another language can stand beside it."""

from __future__ import annotations

ORGANISATION_HELP = "Your organisation, as it will stand in your certificate and on your card."
ORIGIN_HELP = "Name of your log, which stands in every checkpoint: like a web address of yours, without blanks."
ADDRESS_HELP = "Host and port that your node listens on, and that its peers call."
DICTIONARY_HELP = "The dictionary to begin with, which is copied into the home, with its code lists, and adopted."
LINKAGE_FILE_HELP = "The other agency's linkage key file, brought by hand. Destroy the copy afterwards."
HEALTH_HELP = "Whose health log is audited, by organisation. Needed where several health agencies are trusted."
OVERSIGHT_TO_HELP = "Where to write the public oversight key. If left out: keys/oversight.pub in the home."
NO_PORT = "has no port that peers could call"
NO_PORT_REMEDY = "Give HOST:PORT with a port from 1 to 65535."
AUDITOR_CREATED = """\
An auditor's home stands in {home}; its oversight key is on this machine only.
Next:
  1. Hand {oversight} to the census agency. It is public; the file beside it is not.
  2. Trust everybody's cards, each with the fingerprint that its owner tells you:
       tripartite auditor register --home {home} CARD --fingerprint FINGERPRINT"""
NO_DICTIONARY = (
    "Without --dictionary nothing can be loaded yet: write dictionary.toml in the home (docs/dictionaries.md), then run "
    "'tripartite dictionary adopt --home {home}'."
)
LINKAGE_BEGUN = """\
{file} holds the linkage key now. The first load is made with it, and so must be the other agency's:
take it this file, by hand, unless the key came from there."""
