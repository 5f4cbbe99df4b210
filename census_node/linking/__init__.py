"""The tool that makes the card-to-person table: offline, at the census agency, from two files that it holds.

commands    `tripartite census link`            texts         what it and its report say
settings    linking.toml
reading     both files, as tables               model         agreement weights and scored pairs: the only user of Splink
assignment  who is linked, who is for review    decisions     what clerks decided
report      how good the links are              linking       the order of these steps, and the files that they leave

A node that serves imports nothing of this. Names are in the two files, in a private folder while the tool runs, and in the file for
clerical review; they are written nowhere else.
"""
