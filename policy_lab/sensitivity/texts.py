"""Every sentence of `tripartite lab sensitivity`, in one place, so that another language can stand beside it."""

from __future__ import annotations

# --- what is wrong with files and choices --------------------------------------------------------------------------------
NO_COLUMN = "there is no column {column}."
NEAREST = "The nearest names are: {nearest}."
FEW_ROWS = "it has {rows} rows, and AVG divides by the rows less one."
FEW_ROWS_REMEDY = "Give a file of at least two rows below its line of names."
NOT_UTF8 = "this line is not UTF-8."
NOT_UTF8_REMEDY = "Save the file as UTF-8."
NO_CSV = "this line is not CSV."
NO_CSV_REMEDY = "Look for a quotation mark that is never closed, and for a byte that is no text."
NO_NAMES = "the first line does not name every column."
NO_NAMES_REMEDY = "Write a name of its own for each column into the first line."
NAMES_TWICE = "two columns have the same name: {columns}."
OTHER_WIDTH = "the row has {found} cells, and the first line names {expected} columns."
OTHER_WIDTH_REMEDY = "Give each row a cell for each column; a missing value is ?."
NO_NUMBER = "the column {column} has cells that are not numbers, in lines {lines}."
NO_NUMBER_REMEDY = "Write ? where a value is missing. If {column} holds no numbers, name the columns that do (--column), or leave it out (--without)."
NO_VALUES = "the column {column} has no value in any row."
NO_VALUES_REMEDY = "Leave it out."
NO_NUMBERS = "it has no column of numbers."
NO_NUMBERS_REMEDY = "SUM and AVG need one; missing values are ?, and a point stands before decimals."
MANY_CATEGORIES = "the column {column} has {found} different words, and a model takes at most {most} of a column."
MANY_CATEGORIES_REMEDY = "Leave the column out with --without."
OTHER_MODEL = "the folder holds a model of another table, training or version."
OTHER_MODEL_REMEDY = "Give another --out, or delete that folder to train anew."
MODEL_OF_OTHER_TABLE = "the model was trained on another table, on other columns of it, or with other versions."
MODEL_OF_OTHER_TABLE_REMEDY = "Train one on this table, or give generated rows with --generated."
NO_MODEL = "there is no model that this command wrote."
NOT_WHOLE = "the training was not finished."
NOT_WHOLE_REMEDY = "Run the command that began it again: it goes on from its last checkpoint."
MODEL_DAMAGED = "the file is damaged."
MODEL_DAMAGED_REMEDY = "Delete the folder and train anew."

# --- progress -------------------------------------------------------------------------------------------------------------
TRAINING = "Training, epochs"
MODEL_LOADED = "The model in {folder} is loaded; nothing is trained."
RESUMED = "Training goes on after epoch {done} of {epochs}."

# --- the licence ----------------------------------------------------------------------------------------------------------
LICENCE = """\
{name} {version} is not free software: its licence allows some uses and not others. It begins:
{lines}
  The whole text: {file}
  Its source: {address}"""
LICENCE_OF = "the licence text of {package}"
ASK_LICENCE = "Do you accept these licences for what you do here?"
