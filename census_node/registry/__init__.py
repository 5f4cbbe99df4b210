"""The census agency's people, and who of them stands where in the rosters of health agencies.

loading     source to registry, as declared     registry    loads in their files, mapped; what a question counts of one
dictionary  what may be asked                   relinking   change of the linkage key
joining     a roster on a load: everybody's place
rosters     what is kept of rosters, on disk    reception   one roster on its way: verified and kept
staging     received, joined, switched, erased
"""

from __future__ import annotations

from census_node.ledger.passes import NO_VALUE
from census_node.registry.registry import Registry

__all__ = ["NO_VALUE", "Registry"]
