"""Who of a sample is here, who is charged, and what of that is durable. Knows nobody's pseudonym.

book        the ledger that a process works with: decided on, charged, folded, put into snapshots
accounts    what each subject was charged, in memory
steps       the history that the ledger is the fold of, in rows snapshots   its files
samples     a sealed file each, from the charge on
subjects    numbers of persons and households; what moves with cards; one list of names found in another
columns     files of arrays
passes      everybody of one load; who of a sample fits, who is charged, how many are counted: the same work for any sample
"""
