"""What an operator can get wrong in a home, found before it hurts: looked at from outside, and never changed.

`findings` says what a finding is; `files` looks at the folder and its disk, `agency` at what both agencies' homes have, `peers` at
other nodes. What only one role knows is in that role's package, found through the entry points `tripartite.doctors`.
"""
