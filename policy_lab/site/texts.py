"""Sentences of the site that people read."""

READY = "policy lab ready on {address}"
SAVED = "written: {files}"

# Texts that the script of the explainer fills in.
SCRIPT = {
    "caption": "How often each answer is sent by somebody who answers “{answer}”",
    "yours": "your answer",
    "oneAnswer": "any answer for any other",
    "withUnit": "{value} {unit}",
    "between": "{low} to {high} {unit}",
    "range": "{value} {unit}, from one bound to the other",
    "belief": (
        "Somebody who wavers evenly between two answers of yours is at most {share} sure of one of them after seeing what you send."
    ),
    "allBelief": "Somebody who wavers evenly between two whole forms is at most {share} sure of one of them after seeing all of it.",
    "crowd": (
        "If {people} people answer and 20% of them would choose one answer, the estimate of that share is within {margin} "
        "percentage points of it, about 19 times out of 20."
    ),
    "noUse": (
        "If {people} people answer and 20% of them would choose one answer, the estimate of that share can be off by {margin} "
        "percentage points: too few people for so much noise."
    ),
    "right": "For {value}, what is sent is right on average. For a number nearer to a bound it is not.",
    "tooMuch": (
        "For {value}, what is sent is {difference} {unit} too much on average, because of the bounds. More people do not make that better."
    ),
    "tooLittle": (
        "For {value}, what is sent is {difference} {unit} too little on average, because of the bounds. More people do not make that better."
    ),
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
