"""Texts of `tripartite lab assessment`."""

from __future__ import annotations

OUT_HELP = "The folder for the assessment; it is made, and only you may open it."
HOME_HELP = "The census home that is assessed; without it the policy that 'tripartite init' sets is."
INCLUDE_HELP = "A folder that 'lab evaluate', 'table' or 'sensitivity' wrote, of data that are declared public or synthetic; may be given more than once."
REASONS_HELP = "A text file: why this policy was chosen, in the agency's own words. An empty line ends a paragraph."
LANGUAGE_HELP = "The language of the assessment, or both."
ATTACKS_HELP = "What 'tripartite attack all --json' printed: these attacks are reported, and none is made now."
WITHOUT_HELP = "Make no attacks, and say so in the assessment."
ATTACK_HELP = "Make this attack only; may be given more than once. Otherwise all of them, which takes some minutes."
ROUNDS_HELP = "How often each attack is made; usually what takes half a minute."
PAPER_HELP = "The paper of the PDF."

SIZE_HELP = "How many entries the assessment names."
SIGNATURE_HELP = "The signature that the assessment names; with --key."
KEY_HELP = "The key that the assessment names; with --signature."
CHECKING = "Reading the log"
WITH_KEY = "Give --signature and --key together."
PAST = "After {size} entries the log of {origin} had this hash:\n  {root}\nAnswers charged so far: {answers}. State: {state}. Entries now: {entries}."
PAST_SIGNED = "The signature holds: this key has signed that the log begins with these entries."
PAST_UNSIGNED = "No signature was checked: --signature and --key have it checked."

WRITTEN = "The assessment is in {folder}:\n{files}"
ONE_OF = "Give one of --attacks, --without-attacks, and --attack with --rounds."
REASONS_EMPTY = "holds no text"
REASONS_REMEDY = "Write why this limit and not another one was chosen, or leave --reasons out."
