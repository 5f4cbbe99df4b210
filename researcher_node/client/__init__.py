"""The Python client: questions and tables from a notebook or a script, as `researcher_node.connect` opens it.

researcher   what a researcher does: ask, quote, look up, make tables
groups       the groups of a table: every code of a column, or conditions with names
results      answers, tables and dictionaries, as text, HTML and data frames
background   the event loop, in a thread of its own
"""
