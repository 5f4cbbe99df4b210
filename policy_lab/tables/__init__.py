"""`tripartite lab table`: one table of counts, averages or totals under a chosen rule, and what its promise is worth.

reading    the columns of a file             cells      the table's cells and who is in them
plan       how far one row can move a cell,  drawing    replicates from a seeded generator, and by a uniform given by hand
           and how much noise follows        release    the exact sampler, and the cells that are refused
worlds     two neighbouring files, told      report     the document that a reader gets
           apart by the answers              commands   the command
"""
