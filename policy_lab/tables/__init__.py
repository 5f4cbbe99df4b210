"""`tripartite lab table`: one table of counts, averages or totals under a chosen rule, and what its promise is worth.

question   what is asked                           loading    the cells that it asks for, from its file
reading    the columns of a file                   cells      the table's cells and who is in them
plan       how far one row can move a cell, how much noise follows, and the epsilon that it really has
drawing    replicates from a seeded generator      release    the exact sampler, and the cells that are refused
worlds     two neighbouring files told apart       report     the document that a reader gets, and its parts:
promises   neighbours, promise, and who has none   sensitivities, published
"""
