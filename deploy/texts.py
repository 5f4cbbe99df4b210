"""Every sentence of `init`, `up` and `demo`, in one place, so that another language can stand beside it."""

from __future__ import annotations

INIT_DONE = """\
The deployment for {population} people is in {directory}: researcher, health, census, auditor.
Next:
  {program} up {directory}
  {program} researcher ask --home {directory}/researcher --where "age >= 65 and procedure = 'angioplasty'" \\
      --count "mother_tongue = 'French'"
"""

WITH_REGISTERS_HELP = (
    "Also make DIRECTORY/registers: a census file and a client register with names, and the truth about them, to try "
    "'tripartite census link' on."
)
MAKING_REGISTERS = "Making up registers"
NOT_A_DEMO = "Nothing was changed. Name another folder with --directory."
NODE_STOPPED = "{role} node was told to stop, and did; it is not started again"
NODE_ENDED = "{role} node stopped by itself (exit {code}); it said why above"
NODE_KILLED = "{role} node was killed (signal {signal}); starting it again"
NODE_BACK = "{role} node is back"
NODE_FAILED = "The {role} node did not start, and said why above; the others have been stopped."
NODES_LOGGED = "What the nodes logged last:"

DEMO_TITLE = "A synthetic Ontario of {population:,} people. Nobody in it exists."
DEMO_NODES = "\nThree nodes, three processes, mutual TLS on this machine:"

DEMO_STUDIES = """
Two studies. The health node never learns the language question's answer, the census node never sees a criterion. Each group is
one answer of two cells, French and everybody else, at the price of one count; the noise of a cell is within {margin} either way,
19 times out of 20 (scale {scale}, at three times the price of the paper's {usual})."""
DEMO_STUDY_1 = "\nStudy 1: francophones (mother tongue French) among people who had an angioplasty"
DEMO_STUDY_2 = "\nStudy 2: hospital use of people of 65 and over with type 2 diabetes"
DEMO_BAND = (
    "  {label:<16} about {count:>4} of about {total:>5} people   share {share:>6}   "
    "within {points:.1f} points 19 times out of 20; misleads {misleads:>6}"
)
DEMO_COARSE = """\
  'Misleads' is how often the noise alone would show the share of such a group off by more than {misleading:.0f} percentage points:
  small groups often, large ones hardly ever. Noise does not grow with the data: on all of Ontario, about 12.9 million people
  instead of {population:,}, the share of study 1 would be within {point:.2f} points, 19 times out of 20."""
DEMO_CHARGED = "  charged so far: {answers} answers, {units} of {cap} units"
DEMO_HOUSEHOLD = (
    "  Here every answer is charged to everybody. With a budget for each household ('{program} init --subject household') somebody who lives "
    "alone is counted in {one} answers at scale {scale}, a household of {members} that is asked about as a whole in {several}."
)

DEMO_ATTACK = """
The attack (Figure 2 of the paper). A health agency and a researcher collude against one made-up person: they know the
language of everybody else, and ask about the same small group again and again until the census node stops. How sure do
they become that this person is francophone? They start at 50.0 %; the law of this service says: never above {cap:.1f} %."""
DEMO_ATTACK_ROW = (
    "  answer {number:>2}   noisy count {noisy:>5}   they believe {belief:>5.1f} %   could be at most {ceiling:>5.1f} %"
)
DEMO_ATTACK_TRUTH = """\
  The person's mother tongue is {language}. The attackers' {answers} answers have brought them to {belief:.1f} %; whatever
  the noise, and whatever they made of the {before} answers before, they could not have passed {ceiling:.1f} %."""

DEMO_REFUSED = "\nQuestion {number}:\n  {text}\n  {hint}"
DEMO_STATUS = """
The census node's log, replayed: {log_size} entries, {answers} answers charged once each, worst belief {worst_belief}, \
cap {max_belief}, service {state}."""
DEMO_AUDIT = """
The audit. The three parties hand in what they keep for it: both logs, and the researcher's receipts. The auditor, offline,
with everybody's cards and the oversight key:
"""
DEMO_FLIPPED = """
The same, with one bit of the last charge flipped in {file}:
"""
DEMO_AUDIT_AGAIN = """
Again by hand: {program} audit replay {exports} --home {deployment}/auditor
"""
DEMO_KEPT = """\
The deployment is in {directory}; nothing is left running. Look at it in a browser:
  {program} census dashboard --home {directory}/census"""


def indented(text: str) -> str:
    """The text as a quotation."""
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))
