"""Output of the census node: noise slots for quotes, checkpoints, and answers.

slots       places in the noise sequence      slot_secrets  what they commit to
publication what of the log is shown, when    outbox        sealed answers           released    those that are out
delivery    pushes them to inboxes            oversight     openings for an auditor
"""
