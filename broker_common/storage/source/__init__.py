"""Where a load's rows come from: files and databases, in an agency's own words or in published ones.

rows      what a row is, and what is wrong with one          csv_file, parquet, database   the kinds of source
files     which kind a file is; several as one source        values              published texts become numbers
toml      `source.toml`, which says what an agency has       plan                the sources of one load
mapping   own words become published ones                    beside              values in a table of their own
"""
