"""The health agency's node: takes criteria, builds the sample, forwards it as sealed bits. It never learns an answer.

query/      one question: its price, its cohort, its sample, its place in the queue, and what leaves for the census node
people/     loads: from sources to stores of people and their events, and the change of the linkage key
roster/     everybody's pseudonyms, sent to the census node once a load
operator/   what an operator sees: pages, and how large cohorts were

config      what an operator sets             service        the RPCs: translates messages, decides nothing
flow        the whole order of a question's steps
node        the parts of one running node     census_link    the way to the census node, and its present keys
assembly    from a home folder to all of these  witness      watching the census log, and its cosignatures
cli         the commands; creating: new homes texts          what they say
exporting   what an auditor is handed         doctor         what `tripartite doctor` looks at
"""
