"""The files that are handed in.

writing    a node's log as C2SP tlog-tiles            reading  where an export is read: plain files of bounded length
documents  receipts, opened criteria and dictionaries
"""
