"""One question, from a researcher's text to a verified answer. Begin with `session`.

session       what one command asks of both nodes: dictionaries, a quote, the question itself, its answer
composing     several counts to one question
warnings      what a researcher would regret having paid for; confirming: who goes on all the same
quoting       a quote as it is shown
other_side    a word that belongs to the other agency      lookup    looking something up in both dictionaries
dictionaries  both agencies' dictionaries as they were fetched last; policies: those that were met here
"""
