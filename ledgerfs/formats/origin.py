"""The ledger that another one was made from: ledgerfs records it in the custom metadata, which brokers keep unchanged.

`offload --unbatch` gives messages new ids, in a new ledger. Without this record the bucket does not show that both
ledgers have the same messages.
"""

import json
from dataclasses import dataclass

ORIGIN_KEY = "ledgerfs/made-of"

_MOST_ENTRIES = 2**32 - 1
"""Largest number of entries that a catalog can store; such a ledger has 48 GiB of record headers alone."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A ledger whose messages are also in another ledger of its topic, in other entries.

    Attributes
    ----------
    length
        Bytes of all entries; -1 if unknown.

    """

    ledger_id: int
    last_entry: int
    length: int


def build_origin(origin: Origin, managed_ledger: str | None) -> bytes:
    """Return the value for the custom metadata of a ledger of this topic: JSON."""
    reported = {
        "managed_ledger": managed_ledger,
        "ledger_id": origin.ledger_id,
        "last_entry": origin.last_entry,
        "length": origin.length,
    }
    return json.dumps(reported).encode()


def parse_origin(data: bytes, managed_ledger: str | None) -> Origin | None:
    """Parse a value of `build_origin`; return None for any other, and for a ledger that was copied to another topic since."""
    try:
        reported = json.loads(data)
        name, ledger_id, last_entry, length = (
            reported[key] for key in ("managed_ledger", "ledger_id", "last_entry", "length")
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_sane = all(type(one) is int and one < 2**63 - 1 for one in (ledger_id, last_entry, length))
    if not is_sane or name != managed_ledger or ledger_id < 0 or not 0 <= last_entry < _MOST_ENTRIES or length < -1:
        return None
    return Origin(ledger_id, last_entry, length)
