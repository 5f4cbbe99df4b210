"""One question, from a researcher's text to a verified answer. Begin with `session`.

session     what one command asks: a quote, the question itself, its answer
contact     both nodes, as a command meets them: channels, cards, dictionaries, the policy, the census log
proposal    what is wanted, and what the dictionaries and the policy make of it; composing: several counts to one question
warnings    what a researcher would regret having paid for, and who goes on all the same
quoting     a quote as it is shown
lookup      looking something up in both dictionaries; other_side: a word that belongs to the other agency
kept        dictionaries and policies, as the agencies published them
"""
