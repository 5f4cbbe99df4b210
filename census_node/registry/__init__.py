"""The census agency's people, and who of them stands where in the rosters of health agencies.

registry   one load, in its file, mapped            joining    a roster on a load: everybody's place
rosters    what is kept of rosters, on disk      reception  one roster on its way: verified and kept
counting   what a question counts of a load
staging    received, joined, switched, erased    sending    the RPC, and the instants at which rosters switch
"""

from __future__ import annotations

from census_node.registry.registry import NO_VALUE, Registry

__all__ = ["NO_VALUE", "Registry"]
