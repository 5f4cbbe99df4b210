"""`tripartite lab explain`: the figures of the pages as tables, files and JSON, without a browser."""
