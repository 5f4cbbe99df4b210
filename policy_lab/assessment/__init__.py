"""An assessment to print and sign: what the service promises to whom, under which policy, and what remains.

facts         what a census home's log says            cited       the commands that reproduce a sentence
scope         what, who, and who learns what           promises    what holds against whom, and what does not
chosen        the policy: what it buys and costs       trials      attacks and their verdicts
alternatives  what else was evaluated, and annexes     remaining   risks, checkpoint, signatures
assessment    the document, put together
"""
