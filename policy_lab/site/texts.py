"""Sentences of the site that people read."""

READY = "policy lab ready on {address}"
SAVED = "written: {files}"

AGE = "Age group"
AGES = ("12 to 17", "18 to 34", "35 to 49", "50 to 64", "65 or over")
MOTHER_TONGUE = "Mother tongue"
LANGUAGES = ("English", "French", "another language")
SMOKING = "Do you smoke?"
SMOKES = ("every day", "sometimes", "never")
DIABETES = "Do you have diabetes?"
YES_OR_NO = ("yes", "no")
HEIGHT = "Height in centimetres"

# What the script of the explainer fills in.
SCRIPT = {
    "caption": "How often each answer is sent by somebody who answers “{answer}”",
    "cell": "{low} to {high} cm",
    "yours": "your answer",
    "oneAnswer": "any answer for any other",
    "range": "{range} cm, from one bound to the other",
    "halfRange": "{range} cm, half way around",
    "centimetres": "{value} cm",
    "belief": (
        "Somebody who knows that your answer is one of two, and held both for equally likely, is at most {share} sure of one "
        "of them after seeing what you send."
    ),
    "allBelief": "For two whole forms, whose five answers all differ, it is at most {share}.",
    "crowd": (
        "If {people} people answer and 20 % of them would choose one answer, the estimate of that share is within {margin} "
        "percentage points of it, about 19 times out of 20."
    ),
    "noUse": (
        "If {people} people answer and 20 % of them would choose one answer, the estimate of that share can be off by {margin} "
        "percentage points: too few people for so much noise."
    ),
    "tooMuch": "For {height}, what is sent is {difference} cm too much on average. More people do not make that better.",
    "tooLittle": "For {height}, what is sent is {difference} cm too little on average. More people do not make that better.",
    "changedNone": "This time chance changed none of your answers. Nobody who receives them can know that.",
    "changedOne": "This time chance changed 1 of your {all} answers. Nobody who receives them can know which.",
    "changedMany": "This time chance changed {n} of your {all} answers. Nobody who receives them can know which.",
    "question": "Question",
    "answer": "Your answer",
    "sent": "What would be sent",
    "epsilon": "Epsilon",
    "isChanged": "changed",
    "outside": "A whole number from {low} to {high} is needed here.",
}
