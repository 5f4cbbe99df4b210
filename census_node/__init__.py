"""The census agency's node: prices questions, takes samples, charges, answers, and shuts down before the cap.

config      what an operator sets            registry    language by pseudonym, in columns
admission   is this sample what it claims?   charging    the charge: durable before anything is counted
answering   count, noise, signature, seal    outbox      sealed answers until they are fetched
reservations  budget held by tickets on their way
samples     a file each, from the charge on    delivery    pushes answers to inboxes
slots       places in the noise sequence     timing      the instants at which anything may leave
service     the RPCs                         node        the parts of one running node, put together
loading     source to registry               operating   adopt, shut down, reopen: what an operator does to the log
proposals   signed policies not yet in force cli         the commands (policy_commands: those about rules)
dictionary  what may be asked                relinking   change of the linkage key
texts       what the commands say            opening     from a home folder to all of these
exporting   what an auditor is handed        units       numbers of persons and households; what moves with cards
columns     files of arrays                  pseudonyms  finding them in ascending columns
ledgers     who of a sample still fits       ledger_book the ledgers a process works with: folded, charged, compacted
submitted_ledger  charges by pseudonym       unit_ledger charges by person and household
ledger_steps  the history that they are the fold of      snapshots   their files
on_site     the private stores against the log, person by person: for an auditor
site_accounts  charges worked out a second time          site_store  the stores, read and never written
receiving   frames read, opened and linked   linking     a sample looked up as it comes
linked      a sample with its census units
oversight   openings for an auditor          publication what of the log is shown, and when
log_service the log's proofs, and watching   slot_secrets  what noise slots commit to
quote_rate  how often one researcher may quote
belief_report  what `census status` says (belief_plot: its picture)
"""
