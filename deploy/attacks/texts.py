"""Every sentence of `attack`, in one place, so that another language can stand beside it."""

from __future__ import annotations

SPENDS = "The attack asks real questions of {directory}: what they cost is spent for good."
MAKE_ONE = "Use a folder that 'tripartite init' has made, with its nodes up."
TOO_FEW = "has too few people whom criteria can single out"
MORE_PEOPLE = "Use a larger one, or fewer --rounds."
TOO_FEW_PAIRS = "has too few pairs of people for so many rounds of this attack"
PER_PERSON_ONLY = "has strict accounting: one budget for everybody, none of one person's to get round"
HOUSEHOLD_ONLY = "has a budget for each person, none for a household"
OWN_ONLY = "Leave --deployment and --accounting away: the attack makes a deployment and people of its own for this."
THE_DEPLOYMENT = "the deployment"
PEOPLE_AS_THEY_ARE = "is there already, and the attack makes people of its own"
NOT_WITH_DEPLOYMENT = "--{option} is for a new deployment, --deployment for one that stands: give one of them."
SKIPPED = "{attack} is left out: the deployment {problem}"

REPORT = {
    True: "{attack}: the promise held ({answers} answers)",
    False: "{attack}: THE PROMISE DID NOT HOLD ({answers} answers)",
}
MARK = {True: "ok  ", False: "FAIL"}

GUESSES = "{what}: {right} of {trials} right, {rate:.1f} % (95 %: {low:.1f} to {high:.1f}); may not beat {curve:.1f} %, {fails}"
FAILS_ABOVE = "fails above {share:.1f} %"
FAILS_NEVER = "cannot fail"
NOISE = "{what}, scale {scales}: {mean:.1f} on average in {draws}; may not fall below the law's {expected:.1f}"
LATE = "{what}: {one} of {of_one} about nobody, {other} of {of_other} about everybody; may not differ but by chance"
INSTANTS = "{what}, milliseconds in the middle: {medians}; may not differ but by chance ({chance:.2g})"
SAME = "{what}: {compared} compared, {different} different"
WITHIN = "{what}: {value}, at most {limit}"
ERROR_RATE = (
    "A deployment that keeps its promises is accused at most once in {often:,} times by each line with chance in it."
)

FINDINGS = {
    "whole_budget": "language guessed, a whole budget boldly",
    "bold_sure": "surer of the truth than 75 %, a whole budget boldly",
    "beyond_budget": "language guessed, answers beyond the budget",
    "paper_guess": "language guessed, the paper's way",
    "paper_sure": "surer of the truth than 70 %, the paper's way",
    "highest_belief": "highest belief about anybody",
    "counted_units": "units of answers that counted somebody",
    "noise": "noise of single answers",
    "table_guess": "value guessed by tables, a whole budget boldly",
    "table_beyond": "value guessed by tables beyond the budget",
    "table_belief": "highest belief about anybody, by tables",
    "table_noise": "noise of tables, by its norm",
    "table_sum": "error of all cells of a table added up",
    "retry": "answers to a ticket submitted again",
    "charged_each": "answers and charges",
    "answer_repeated": "same answer to the same question, new ticket",
    "average_error": "error of four answers added up",
    "parts_error": "error of all parts less the whole",
    "by_difference": "language guessed by differences",
    "by_weight": "language guessed, all others known",
    "difference_error": "error of the differences",
    "reconstructed": "languages reconstructed by least squares",
    "linked": "guessed who is in the census",
    "linked_seen": "what is seen of people in the census and of others",
    "while_spending": "what is seen while budgets are spent, in the census or not",
    "spent_or_absent": "what is seen afterwards, in the census or not",
    "spent_or_fresh": "what is seen of spent people and of people never asked about",
    "spent_or_nobody": "what is seen of many spent people and of nobody",
    "quotes": "quotes before and after budgets are spent",
    "equal_seen": "what is seen of equal cohorts and of others",
    "equal_answers": "answers about equal cohorts that are equal",
    "equal_by_time": "equal cohorts guessed by time",
    "dear_refusals": "refusals of dear criteria, about nobody and about everybody",
    "dear_seen": "what is seen of the dearest criteria that are admitted",
    "dear_late": "told after the earliest tick",
    "times_seen": "what is seen of questions about nobody, few, half, everybody, unlinked and spent people",
    "times_refused_seen": "what is seen of refused tickets about nobody and everybody",
    "times_forwarded": "sample forwarded, after its tick",
    "times_charged": "charge told, after its tick",
    "times_released": "release told, after its tick",
    "times_answer": "answer here, after its tick",
    "times_quote": "longest quote meanwhile",
    "times_refusal": "refusal told, after its tick",
    "first_record": "language guessed by the first record, its budget spent",
    "second_record": "language guessed by the second record afterwards",
    "both_records": "language guessed by both",
    "counted_twice": "answers above one about two cards of one person",
    "together": "language guessed by both records in one sample",
    "raced_units": "units of racing answers that counted somebody",
    "raced_charge": "units charged to anybody",
    "raced_tickets": "racing tickets, charges and answers",
}
CURVES = {
    "ceiling": "ceiling: no answers can do more",
    "typical": "the best guess is right so often",
    "hardly_above": "39 of 40 attackers stay below",
    "person": "attackers about one known person",
    "paid_for": "what the charged answers pay for",
    "attackers": "attackers",
    "time_same": "the same people again",
    "time_others": "others",
    "time_many": "nearly everybody",
    "late_nobody": "nobody matches",
    "late_everybody": "everybody matches",
    "times_nobody": "nobody matches",
    "times_few": "three people",
    "times_half": "half of everybody",
    "times_everybody": "everybody",
    "times_unlinked": "three people who are not in the census",
    "times_spent": "three people whose budget is spent",
    "cap": "the cap",
    "counted": "the person was counted",
    "allowed": "what is charged allows",
    "base_rate": "guessing by the base rate",
}
PLOT_TITLE = {True: "{attack}: held", False: "{attack}: DID NOT HOLD"}
PLOT_RATES = (
    "share of right guesses (dot, 95 % interval)\nwhat it may not beat (red), from where on it fails (thin red)"
)
PLOT_FAILS = "a verdict fails above"

TABLE_ROW = "{attack:<16} {verdict:<8} {answers:>8}  {worst}"
VERDICT = {True: "held", False: "BROKEN"}
