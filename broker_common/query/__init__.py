"""Questions and how they are written: dictionaries, health criteria and language questions.

Everything that enters comes out as a checked value or as a typed error: text from a researcher (`criteria`, `question`)
and messages from another node (`messages`, `condition_wire`, `question`) pass through the same dictionary checks.

Conditions     `scanner`, `syntax` and `criteria` read text; `condition` is the tree, `normal_form` builds it, `canonical` writes it,
               `condition_wire` sends it; `mistakes` and `remedies` say what to type instead, `certainty` what its text alone decides
Dictionaries   `dictionary`, its codes (`branches`), its document, changes and pages (`dictionary_...`)
Signed         `ticket` by researchers; `quote`, `answer` and `refusal` by the census agency
"""

__all__: list[str] = []
