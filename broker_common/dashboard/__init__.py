"""Pages for operators and auditors: charts, access, the web site around them. Each node defines its own pages.

`site` makes the application, `serving` runs it, `access` says who may see what, `charts` draws. No page knows a secret that
its reader must not know: a node hands over views that were made for one kind of reader.
"""
