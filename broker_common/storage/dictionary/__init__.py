"""Dictionaries on an agency's disk.

file    `dictionary.toml`, read and written        code_lists  its lists of codes, as CSV
draft   a first one, from the files there are      adopted     those that the log says are in force, or were
"""
