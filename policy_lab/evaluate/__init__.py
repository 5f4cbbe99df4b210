"""`tripartite lab evaluate`: mechanisms compared on a data file.

lined       YAML in which everything knows its line        run       a run, as it was declared
run_file    reading the run file                           sources   data files, in batches
data        the data, checked against the run              cells     what is asked, cell by cell, and its exact value
seeds       randomness by name, never by order of work     messages  what respondents send, and estimates from it
answers     what each mechanism answers                    likeness  what the sent data still look like
promises    epsilon, delta, neighbours, composition        parts     finished parts, kept for a run that goes on
running     all parts, over processes                      errors    errors over repetitions
report/     the document
"""
