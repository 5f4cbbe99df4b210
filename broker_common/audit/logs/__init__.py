"""Each log by itself.

log_files   do the files lead to the signed checkpoint?        log_audit  one log: canonical, whole, signed, and folded
census_log  what the census log says, noted                    health_log what the health log says, noted
signers     who may have signed a checkpoint, and when         refusals   did the reason of a refusal hold?
disk_backed a tree and a table of tickets, on disk
"""
