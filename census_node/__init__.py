"""The census agency's node: prices questions, takes samples, charges, answers, and shuts down before the cap.

query/      one query from sample to answer: the whole order of steps (flow), its parts, the desk, and when things happen
registry/   one load, and the rosters that are joined with it
ledger/     who of a sample is charged: the book, the history it is the fold of, samples in their files, the desk's passes

config      what an operator sets            dictionary  what may be asked
slots       places in the noise sequence     slot_secrets  what noise slots commit to
quote_rate  how often one researcher may quote
outbox      sealed answers until they are fetched
delivery    pushes answers to inboxes        publication what of the log is shown, and when
service     the RPCs                         node        the parts of one running node, put together
roster_rounds  rosters and the outside       log_service the log's proofs, and watching
loading     source to registry               relinking   change of the linkage key
subjects    numbers of persons and households; what moves with cards
columns     files of arrays                  ascending   finding pseudonyms of one list in another
operating   adopt, shut down, reopen: what an operator does to the log
proposals   signed policies not yet in force cli         the commands (policy_commands: those about rules)
oversight   openings for an auditor          exporting   what an auditor is handed
texts       what the commands say            opening     from a home folder to all of these
belief_report  what `census status` says (belief_plot: its picture)
"""
