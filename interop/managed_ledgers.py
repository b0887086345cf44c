"""What a broker knows of a topic's ledgers, told for ledgers that it never wrote: a ``ManagedLedgerInfo`` in ZooKeeper.

It has few fields, so they are written here as they stand on the wire, and not by our own reader's code.
"""

import time
from collections.abc import Mapping, Sequence
from uuid import UUID

from kazoo.client import KazooClient

from interop.s3_server import BUCKET, S3Server
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.formats.topic_names import managed_ledger_of

_UINT64 = (1 << 64) - 1
_ID_NODES = "/ledgers/idgen/ID-"
_AT_ONCE = 500
_MOST_IDS = 100_000

Ledgers = Mapping[str, Sequence[LedgerRef]]
"""The ledgers of each topic, ascending."""


def introduce(zookeeper: str, ledgers: Ledgers, s3: S3Server) -> None:
    """Tell whichever broker next loads these topics, which are new, that their ledgers are offloaded to ``s3``."""
    unknown = 1 + max(ledger.ledger_id for some in ledgers.values() for ledger in some)
    client = KazooClient(zookeeper)
    client.start()
    try:
        _advance_ledger_ids(client, unknown)
        for topic, some in ledgers.items():
            info = managed_ledger_info(some, unknown, s3.endpoint)
            client.create(f"/managed-ledgers/{managed_ledger_of(topic)}", info, makepath=True)
    finally:
        client.stop()
        client.close()


def managed_ledger_info(ledgers: Sequence[LedgerRef], unknown: int, endpoint: str) -> bytes:
    """Return the ``ManagedLedgerInfo`` of ledgers that only the bucket has.

    ``unknown`` is the id of one more, which BookKeeper does not have: the broker looks for the last ledger of the list there, and forgets
    it when there is none.
    """
    now = int(time.time() * 1000)
    infos = [
        _number(1, ledger.ledger_id)
        + _number(2, ledger.entries)
        + _number(3, ledger.length)
        + _number(4, now)
        + _bytes(5, _offload_context(UUID(ledger.uuid), now, endpoint))
        for ledger in ledgers
    ]
    return b"".join(_bytes(1, info) for info in [*infos, _number(1, unknown)])


def _offload_context(uuid: UUID, now: int, endpoint: str) -> bytes:
    """Say that the offload is complete, and that BookKeeper's copy is deleted."""
    halves = _number(1, uuid.int >> 64) + _number(2, uuid.int & _UINT64)
    return halves + _number(3, 1) + _number(4, 1) + _number(5, now) + _bytes(6, _driver_metadata(endpoint))


def _driver_metadata(endpoint: str) -> bytes:
    properties = {
        "bucket": BUCKET,
        "managedLedgerOffloadDriver": "AWS_S3",
        "region": "us-east-1",
        "serviceEndpoint": endpoint,
    }
    pairs = [_bytes(1, key.encode()) + _bytes(2, value.encode()) for key, value in properties.items()]
    return _bytes(1, b"aws-s3") + b"".join(_bytes(2, pair) for pair in pairs)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _advance_ledger_ids(client: KazooClient, beyond: int) -> None:
    """Use up BookKeeper's ledger ids up to ``beyond``.

    The broker opens a ledger for each topic that it loads. With an id below those that the topic has it would stand before them, and
    readers would find nothing.
    """
    last = -1
    while last < beyond:
        if beyond - last > _MOST_IDS:
            raise ValueError(f"a ledger with id {beyond}, which this BookKeeper, at {last}, will not reach")
        asked = [client.create_async(_ID_NODES, ephemeral=True, sequence=True) for _ in range(_AT_ONCE)]
        nodes = [one.get(timeout=30) for one in asked]
        for one in [client.delete_async(node) for node in nodes]:
            one.get(timeout=30)
        last = int(nodes[-1].removeprefix(_ID_NODES))
