"""Every sentence that `doctor` says, in one place, so that another language can stand beside it."""

from __future__ import annotations

UNREADABLE = "{file} cannot be looked at: {problem}."
UNREADABLE_REMEDY = "Run 'doctor' as the user whom the node runs as."
LEVELS = {"ok": "ok", "warning": "warning", "problem": "problem"}
ALL_WELL = "Nothing is wrong with this home."
SUMMARY = "Problems: {problems}; warnings: {warnings}."

# --- files -------------------------------------------------------------------------------------------------------------
PRIVATE = "Keys and private files are for their owner alone."
OPEN_TO_OTHERS = "Others on this machine may read: {files}."
OPEN_TO_OTHERS_REMEDY = (
    "Run 'chmod -R go= {home}', and find out who could read it so far: a key that somebody else has read is replaced."
)
WRITABLE = "Others on this machine may write: {files}."
OWNERS = "The files of this home belong to several users."
OWNERS_REMEDY = "Give them all to the user whom the node runs as, and run every command as that user."
IN_MEMORY = "{folder} is in memory ({kind}): everything is gone when the machine stops."
IN_MEMORY_REMEDY = "Put the home on a disk, unless this is a trial."
OVER_A_NETWORK = "{folder} is on a file system over a network ({kind})."
OVER_A_NETWORK_REMEDY = (
    "Put the home on a disk of this machine: SQLite needs locks and flushes that such a file system may not keep."
)
NO_FLUSH = "The disk reports a completed write after {milliseconds} ms: no disk is that fast."
NO_FLUSH_REMEDY = (
    "Ask the administrator of the machine whether its disk honours fsync. If it does not, a power cut loses charges, "
    "and then the node refuses to serve."
)
SLOW_FLUSH = "The disk takes {milliseconds} ms to keep a few kilobytes."
SLOW_FLUSH_REMEDY = "Every charge waits for that several times: put the home on a faster disk."
FLUSHES = "The disk honours fsync, as far as can be told: it takes {milliseconds} ms ({kind})."
FREE = "{gigabytes} GB of the disk are free, {percent} percent."
FREE_REMEDY = "Make room: a load needs its own size again, and a node that cannot write stops."

# --- agencies ----------------------------------------------------------------------------------------------------------
CONFIG = "config.toml is valid, and every setting in it is known."
SERVED = "A node serves this home."
NOT_SERVED = "No node serves this home."
LOAD_REFUSED = "The last load was refused; the one before is in force."
LOAD_REFUSED_REMEDY = "Load again: the command says what is wrong with which rows."
KEYS_MISSING = "Private keys that the home's card puts to use are not here: {purposes}."
KEYS_MISSING_REMEDY = "Put them back, or say under [keys] in config.toml where they are; one that is lost is replaced with 'tripartite keys rotate'."
KEYS_AWAY = "Every key that serving needs is here; elsewhere are {purposes}."
KEYS_HERE = "Every key is here. Serving does not need {purposes}: they are safer on another machine."
THIS_HOME = "this home"
CERTIFICATE_ENDED = "The certificate of {party} has ended on {time}: no connection with it is possible."
CERTIFICATE_ENDS = "The certificate of {party} ends on {time}."
OWN_CERTIFICATE_REMEDY = (
    "Run 'tripartite keys rotate tls', and hand the new card to peers that may not be in contact before."
)
PEER_CERTIFICATE_REMEDY = (
    "Ask that party to run 'tripartite keys rotate tls' and to hand over its card, if it has not been in contact since."
)
CERTIFICATES_GOOD = "No certificate ends within 60 days; the first one does on {time}."
NO_AGENCY = "No {role} agency is registered."
NO_RESEARCHER = "No researcher is registered, so that nobody can ask."
NOBODY_REMEDY = "Register the card that its owner prints with 'tripartite keys card', once fingerprints are compared."
KNOWN = "Registered agencies: {agencies}; researchers: {researchers}."
LOG_AHEAD = "The log's last entry is from {log}, but this machine's clock shows {now}."
CLOCK_REMEDY = "Set the clock right (NTP), then see 'When the clock was wrong' in docs/recover.md."
CLOCK_ALONE = "This machine's clock shows {now}; no other clock has been compared with it yet."
CLOCKS_APART = (
    "This machine's clock and that of {witness} are more than a minute apart: it has cosigned this log at {theirs}."
)
CLOCK_GOOD = "Clock and log agree with each other and with {witness}, who has cosigned this log at {theirs}."
NO_LINKAGE_KEY = "There is no linkage key yet, so that nothing can be loaded."
NO_LINKAGE_KEY_REMEDY = (
    "Take the other agency's, brought by hand: '{command} --key-file FILE'; or make it here with --new-key."
)
ROSTER_TAKEN = "The census node has not refused the roster of the data in force."
ROSTER_REFUSED = "The census node refused the roster of the data in force ({code}), and questions wait for it."
ROSTER_REFUSED_REMEDY = (
    "The node sends it again automatically; if that does not help, see 'What can go wrong' in docs/failures.md."
)
ROSTER_MISMATCH_REMEDY = (
    "The two agencies do not link the same way: compare 'linkage' in 'tripartite health status' and 'tripartite census status', and id_form "
    "in both dictionaries; then see 'When the two chains differ' in docs/keys.md."
)
LINKAGE = "The linkage keys that the log names are here: {count} in the chain."

PARTY = "{role} {name}"

# --- peers -------------------------------------------------------------------------------------------------------------
NO_ANSWER = "{party} does not answer at {address} ({code})."
NO_ANSWER_REMEDY = "Is its node running, is that its address, does a firewall stand between, and has each side registered the other's newest card?"
ANSWERS = "{party} answers at {address}, and both cards are current."
NEWER_CARD = "{party} has a newer card than the one that is known here."
NEWER_CARD_REMEDY = "Nothing needs to be done: a serving node, or the next question, fetches it automatically."
UNHEARD = "The health node of {name} has never cosigned this log: no answer can go out."
UNHEARD_REMEDY = (
    "Its node calls this one: is it running, does it have this node's address, and has each side registered the other?"
)
HEARD = "The health node of {name} has last cosigned this log at {time}."

# --- data --------------------------------------------------------------------------------------------------------------
NOTHING_LOADED = "Nothing is loaded yet."
NOTHING_LOADED_REMEDY = "Run '{command}'."
FULL = "{setting}: {rows} rows are loaded, and {declared} are declared: there is little room for the next load."
FULL_REMEDY = "Declare more in config.toml before the next load, and adopt a policy whose times allow for it."
FITS = "{setting}: {rows} rows are loaded, and {declared} are declared."
DECLARED_CHANGED = "{setting}: config.toml declares {declared}, and the load in force was made for {then}."
DECLARED_CHANGED_REMEDY = "Load again: what is declared takes effect with a load."
POLICY_FITS = "The policy's times allow for what is declared."
POLICY_TOO_SHORT = "The policy's times do not allow for what is declared: {times}."
POLICY_REMEDY = "Propose and adopt a policy with longer times: 'tripartite census policy propose'."
NO_TICK = "The policy has no tick: answers leave at once, so that their times may tell who is in a sample."
NO_POLICY = "No policy is in force."
POLICY_UNKNOWN = (
    "Whether the census agency's policy allows for what is declared cannot be told: its node did not answer ({code})."
)
POLICY_UNKNOWN_REMEDY = "Look again when it runs."
NO_SOURCE = "Neither source.toml nor people.csv is in the home."
NO_SOURCE_REMEDY = "Say in source.toml where the data are (docs/dictionaries.md), or give every load its file."
SOURCE = "The source that the next load reads can be opened, and has what the dictionary needs."
SOURCE_UNASKED = (
    "source.toml fits the dictionary. Whether {tables} can be read, '{command}' says: it takes as long as a load."
)
DICTIONARY_GOOD = "The dictionary of the load in force is version {version}, and so is the one in the home."
DICTIONARY_NONE = "No dictionary is adopted."
ADOPT_REMEDY = "Write it (docs/dictionaries.md), and run '{command}'."
DICTIONARY_NOT_ADOPTED = "dictionary.toml in the home is not the one that was adopted last."
DICTIONARY_NEXT = "A newer dictionary is adopted than that of the load in force: version {version}."
DICTIONARY_NEXT_REMEDY = "It is that of the next load: run '{command}'."

# --- witness -----------------------------------------------------------------------------------------------------------
NO_WITNESS = "There is no witness store: a restored backup is noticed only when the health node shows what it has seen."
WITNESS_REMEDY = (
    "Say in config.toml (witness_store) where it is: a folder on another disk or host, where others decide than here."
)
WITNESS_GONE = "The witness store {folder} is not there, so that the node does not start."
WITNESS_GONE_REMEDY = "Mount it again. A new and empty one forgets what the old one knew."
WITNESS_BESIDE = "The witness store {folder} is on the same disk as the home."
WITNESS_GOOD = "The witness store is on another disk than the home."
NO_OVERSIGHT = "There is no oversight key: no auditor can check the noise of answers."
NO_OVERSIGHT_REMEDY = (
    "Put the public key that an auditor hands over into keys/, and name it in config.toml: oversight under [keys]."
)
OVERSIGHT = "Openings are sealed to the oversight key."

# --- auditors ----------------------------------------------------------------------------------------------------------
TRUSTED = "The auditor trusts the cards of {parties}."
NO_OVERSIGHT_HERE = "This auditor has no oversight key, and checks the noise of no answer."
NO_OVERSIGHT_HERE_REMEDY = "Where another body holds it, nothing needs to be done."
OVERSIGHT_HERE = "The oversight key is here."
