"""Questions and how they are written: dictionaries, health criteria and language questions.

Everything that enters comes out as a checked value or as a typed error: text from a researcher (`criteria`, `question`)
and messages from another node (`messages`, `condition_wire`, `question`) pass through the same dictionary checks.
"""

__all__: list[str] = []
