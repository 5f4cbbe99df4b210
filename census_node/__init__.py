"""The census agency's node: prices questions, takes samples, charges, answers, and shuts down before the cap.

query/      one query from sample to answer: the whole order of steps (flow), its parts, the desk, and when things happen
registry/   loads, and the rosters that are joined with them
ledger/     who of a sample is charged: the book, the history it is the fold of, samples in their files, the desk's passes
release/    what leaves: noise slots, checkpoints, sealed answers, and how these get to their researchers
linking/    the offline tool that makes the table of cards and persons; a node that serves knows nothing of it
operator/   what an operator decides and sees: rules, orders, reports, pages

config      what an operator sets             service        the RPCs: translates messages, decides nothing
node        the parts of one running node     roster_rounds  rosters and the outside
assembly    from a home folder to all of these log_service   the log's proofs, and watching
cli         the commands                      texts          what they say
exporting   what an auditor is handed
"""
