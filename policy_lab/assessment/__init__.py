"""An assessment to print and sign: what the service promises to whom, under which policy, and what remains.

facts       what a census home's log says          cited        the commands that reproduce a sentence
promises    scope, parties, who learns what        chosen       the policy, and what it buys and costs
alternatives what else was evaluated               trials       attacks and their verdicts
remaining   risks, checkpoint, signatures          assessment   the document, put together
"""
