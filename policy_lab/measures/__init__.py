"""How much two data sets differ, and who is found again in one of them: pure functions over arrays.

columns       one column: its name, its kind, its values    shapes     how alike one column's two distributions are
correlations  how two columns go together                   baseline   columns permuted one by one: nothing goes together
linkage       who is found again by columns left unchanged  mixture    some answers plain, the others noisy
"""
