"""Quotes as tests look at them: what was signed, and a slot with its proof that a test may lie about."""

from __future__ import annotations

from dataclasses import dataclass, field

from tripartite.v1 import census_service_pb2, quote_pb2, ticket_pb2


def quote_of(shown: census_service_pb2.QuoteResponse) -> quote_pb2.Quote:
    """The census node's signed quote."""
    return quote_pb2.Quote.FromString(shown.quote.quote)


@dataclass
class Offer:
    """A quoted slot, and what is shown to prove it."""

    noise_slot: ticket_pb2.NoiseSlot = field(default_factory=ticket_pb2.NoiseSlot)
    slot_entry: bytes = b""
    slot_index: int = 0
    slot_proof: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, shown: census_service_pb2.QuoteResponse) -> Offer:
        return cls(quote_of(shown).noise_slot, shown.slot_entry, shown.slot_index, list(shown.slot_proof))

    def become(self, other: Offer) -> None:
        """Be another offer in everything."""
        self.__dict__.update(other.__dict__)

    @property
    def shown(self) -> census_service_pb2.QuoteResponse:
        """The proof as it travels, beside no quote."""
        return census_service_pb2.QuoteResponse(
            slot_entry=self.slot_entry, slot_index=self.slot_index, slot_proof=self.slot_proof
        )
