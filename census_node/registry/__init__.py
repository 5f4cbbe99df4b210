"""The census agency's people, and who of them stands where in the rosters of health agencies.

loading     source to registry                  registry    one load, in its file, mapped
registries  which loads are open, and needed    relinking   change of the linkage key
dictionary  what may be asked                   declared    how many people the operator says there are
joining     a roster on a load: everybody's place
rosters     what is kept of rosters, on disk    reception   one roster on its way: verified and kept
staging     received, joined, switched, erased  counting    what a question counts of a load
"""

from __future__ import annotations

from census_node.registry.registry import NO_VALUE, Registry

__all__ = ["NO_VALUE", "Registry"]
