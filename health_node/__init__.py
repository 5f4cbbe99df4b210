"""The health agency's node: takes criteria, builds the sample, forwards encrypted ids. It never learns an answer.

config      what an operator sets              people_store   health records by pseudonym, in columns
dictionary  what may be asked                  cohort         criteria to pseudonyms
sampling    cohort to sample                   forwarding     one sample to the census node, retried until charged
service     the RPCs                           node           the parts of one running node, put together
loading     source to store                    cli            the commands; texts: what they say
"""
