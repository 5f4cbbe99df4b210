"""The health agency's node: takes criteria, builds the sample, forwards it as sealed bits. It never learns an answer.

config      what an operator sets              people_store   health records by pseudonym, in columns
tables      events, long lists, households     cohort         criteria to passes over columns
marks       criteria to a sample of bits, and its price   forwarding  one sample to the census node, retried until charged
service     the RPCs                           node           the parts of one running node, put together
questions   what open tickets are drawn from   census_link    the way to the census node, and its present keys
loading     sources to store                   relinking      change of the linkage key
sorting     events by whom they belong to
fair_queue  whose question is next             encoding       a column as small numbers
witness     watching the census log, and its cosignatures   exporting   what an auditor is handed
rosters     everybody's pseudonyms, sent once a load   roster_book   which of them are sent, and are there
opening     from a home folder to all of these cli            the commands; texts: what they say
"""
