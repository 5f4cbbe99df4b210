"""Every sentence that the commands about dictionaries say, in one place, so that another language can stand beside it."""

from __future__ import annotations

CHECK_HOME_HELP = (
    "An agency's home: check FILE, or else its own dictionary.toml, and that the agency can load data under it."
)
SEARCH_HELP = "Only where this word stands, in names, codes and labels; letter case and accents do not matter."
UNDER_HELP = "Only this code and the codes that stand under it."

CODES_HELP = (
    "A code list for a column of the draft: COLUMN=FILE.csv, or TABLE.COLUMN=FILE.csv. May be given more than once."
)
ID_HELP = "The column that holds the id, by its name in the files; it is left out. May be given more than once."
TO_HELP = "The file to write. Otherwise standard output."
CODES_FORM = "'{text}' is not COLUMN=FILE."

# --- check ---
CHECKED = """\
{file} can be published: version {version} of {agency}
  ids        {id_form}, linkage {linkage}
  hash       {hash}"""
NO_AGENCY = "an agency without a name"
COLUMN = "  {name}  {kind}"
CODES = "{n:,} codes"
LEVELS = "{n:,} codes in {levels} levels"
EVENTS = "  {name}  (events)"
NO_FRENCH = "{n:,} descriptions and labels have no French: the English ones stand in for them."

# --- diff ---
SAME = "The two say the same."
NEEDS_LOAD = "Data that was loaded under {old} must be loaded again before it is served under {new}:"
NEEDS_NO_LOAD = "Nothing has to be loaded again; people read other words:"
CHANGE = "  {sentence}\n      {effect}"

# --- adopt ---
ADOPTED = "Adopted: version {version}, hash {hash}."
LOAD_NOW = "Data is served under it after the next load: tripartite {role} load --home {home}"
NO_DICTIONARY = "only a health or census agency publishes a dictionary"
NO_DICTIONARY_REMEDY = "Give the home of an agency with --home."

# --- draft ---
DRAFTED = "The draft is in {file}. Write what its TODOs ask for, then: tripartite dictionary check {file}"

# --- a node's own ---
NOTHING_FOUND = "'{word}' stands in no name, description, code or label."
UPGRADE_DICTIONARY_HELP = (
    "The dictionary that the data in force was loaded under; usually dictionary.toml in the home. That of a home that 'init' has made "
    "stands in deploy/examples/ontario."
)
UPGRADED = """\
{home} is carried over: its log is of format {format} from here on, and goes on with every charge that it holds.
The dictionary of the data in force is adopted: {dictionary}"""
NOTHING_TO_UPGRADE = "{home} is of this version: nothing was changed."
