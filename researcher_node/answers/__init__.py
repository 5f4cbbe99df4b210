"""What was asked and what came back, kept and shown.

store      every question with its answer, in one file           selection  which of them
listing    as people and programs read them                      counts     the counts of one, and their margins
own_use    what own questions can have used of budgets           formats    for other programs; rows: one table
linked     who is linked, and so counted; asked_of: which part of the people was asked
"""
