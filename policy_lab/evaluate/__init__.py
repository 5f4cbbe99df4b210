"""`tripartite lab evaluate`: mechanisms compared on a data file.

lined       YAML in which everything knows its line        cells     what is asked, cell by cell, and its exact value
run_file    the run file: what is to be evaluated          answers   what a mechanism answers, and what it is expected to answer
data        the data file, checked against the run file    promises  epsilon, delta, neighbours and composition of each mechanism
parts       finished parts, kept for a run that goes on    running   all parts, over processes
errors      errors over repetitions                        likeness  what the sent data still look like
report      the document                                   texts     its words
"""
