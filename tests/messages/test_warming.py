"""What is compiled before is what reading needs."""

from collections.abc import Iterator
from typing import Any

from numba.core.dispatcher import Dispatcher

from ledgerfs.formats import records
from ledgerfs.messages import warming
from ledgerfs.messages.decode import batch_split, entry_checksum, metadata_walk
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.kernels import gather
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from tests.support.entries import TOPIC, batch_of, batched, decode, frame, metadata

MODULES = (records, metadata_walk, entry_checksum, batch_split, gather)


def signatures() -> dict[str, list[Any]]:
    return dict(_compiled())


def _compiled() -> Iterator[tuple[str, list[Any]]]:
    for module in MODULES:
        for name, one in vars(module).items():
            if isinstance(one, Dispatcher):
                yield f"{module.__name__}.{name}", sorted(map(str, one.signatures))


def test_entries_are_decoded_without_another_signature() -> None:
    warming.compile_kernels()
    before = signatures()
    one, of_batch = metadata(key=b"k", event_time_ms=3), BatchedMetadataRecord(key=b"k")
    for message in (one, of_batch):
        message.property.add(key=b"k", value=b"v")
    entries = [frame(one, b"v"), batched([(of_batch, b"v")] * 3)]
    decoded = decode(TopicDecoder(TOPIC, DecodeOptions()), batch_of(entries))
    assert decoded.num_rows == 4
    assert signatures() == before
    assert all(before[f"{module.__name__}.{name}"] for module, name in (
        (metadata_walk, "_walk_entries"), (batch_split, "_split"), (entry_checksum, "_check"), (gather, "_find_properties")
    ))  # fmt: skip
