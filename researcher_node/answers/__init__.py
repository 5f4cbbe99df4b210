"""Questions and their answers, kept and shown.

store     every question with its answer, in one file           selection  which of them
listing   as people and programs read them                      counts     the counts of one, and their margins
counted   whom an answer counts: the linked, the asked          own_use    what own questions can have used of budgets
formats   rows for other programs
"""
