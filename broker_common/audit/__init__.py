"""What an auditor is handed, and what an auditor can make of it: exports, their verification, and their replay.

codes       every code that a problem can have       findings    problems, what is pending, what could not be checked
documents   receipts and opened criteria as files    notes       who may have signed a checkpoint, and when
log_export  a node's log as C2SP tlog-tiles, written
handed_in   where an export is read                  log_audit   one log: canonical, whole, signed, and folded
census_log  what the census log says, noted          health_log  what the health log says, noted
disk_backed a tree and a table of tickets, on disk   openings    opened noise and criteria, on site
receipts    what researchers show                    reconciling query by query: do all three agree?
home        the auditor's home: trust, what was seen
audit       the whole, step by step                  report      the verdict, for programs and for people
texts       what the commands say                    on_site     the judge of an agency's private stores

The pure parts take bytes and readers; input and output happen in `log_export`, `handed_in`, `home`, `disk_backed`
and `on_site`.
"""
