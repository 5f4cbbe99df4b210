"""On site: an agency's private stores, person by person, against the log that it handed in.

visit       what an audit asks of it, and what it takes back     walk      the history beside the log, step by step
accounts    charges worked out a second time                     store     the database, read and never written
files       the files beside it

SECURITY: a judge who decided with the node's own code would find its mistakes right. Nothing of a node is imported here, nor of
what keeps a node's stores or folds its log; an import contract says so. Shared are what is published: the forms of log entries,
questions, dictionaries and policies, the cap that follows from a policy, hashes and commitments (FORMAT.md), the step from one
pseudonym to the next, and how any home's settings and keys are read. AUDIT.md describes the private files.
"""
