"""A local deployment of all three nodes: made (`init`), run (`up`), shown (`demo`), with synthetic people.

local       init: homes, keys, configurations, journals, sources      synthetic/  made-up Ontario
supervise   up: the nodes as child processes                          demo        the paper's studies and attack
documents   keeps what the documents quote in step with the code      cli, texts  the commands and what they say
filling     made-up people, loaded by both agencies at once           attacks/    on a live deployment (attack_commands)
audited     the audit that the demo ends with
"""
