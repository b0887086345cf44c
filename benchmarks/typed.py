"""Decoding values of schemas to Arrow arrays, against fastavro and Google's Protobuf, and typed scans against scans of bytes.

All figures are the best of several runs, s of the processor, subject and baseline in turn. Those of decoders are of values in memory:
orders of eight fields, and those of topics that a real Pulsar wrote, over and over. Baselines are given fewer rows, each of which costs
them the same. Scans are of a bucket in ``/dev/shm``.
"""

import argparse
import io
import json
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import fastavro
import numpy as np
import pyarrow as pa

from benchmarks import orders
from ledgerfs import Topic
from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.schemas.protobuf_schema import native_descriptors
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.kernels.gather import gather_bytes
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.json_shapes import JsonShapes
from ledgerfs.messages.values.json_values import JsonDecoder
from ledgerfs.messages.values.value_decoder import ValueDecoder
from tests.support.protobuf import Model
from tests.support.typed_golden import topic

GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "golden" / "pulsar-typed.tar.xz"
GOLDEN_TOPICS = (
    "avro-pojo",
    "avro-strict",
    "avro-logical",
    "avro-unions",
    "avro-random-0",
    "avro-random-1",
    "avro-random-2",
    "protonative",
    "proto2native",
    "protonative-random-0",
    "protonative-random-1",
    "json-pojo",
    "json-random-0",
)
PRIMITIVES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "DOUBLE": 8, "TIMESTAMP": 8, "INSTANT": 12, "LOCAL_TIME": 8}
"""Sizes of the values of some types."""
_FEWER = 20
"""A baseline gets one row of so many."""


@dataclass(frozen=True, slots=True)
class Values:
    """Payloads one after the other."""

    data: Bytes
    starts: Int64
    ends: Int64

    @classmethod
    def of(cls, payloads: list[bytes]) -> "Values":
        """Put payloads together."""
        sizes = np.array([len(one) for one in payloads], np.int64)
        ends = np.cumsum(sizes)
        return cls(np.frombuffer(b"".join(payloads), np.uint8), ends - sizes, ends)

    def decode(self, decoder: ValueDecoder) -> pa.Array:
        """Return all values, none of which is bad."""
        array, reasons = decoder.decode(self.data, self.starts, self.ends)
        assert not reasons.any()
        return array

    def copy(self) -> pa.Array:
        """Return them as they are, as a scan of bytes does."""
        return gather_bytes(self.data, self.starts, self.ends - self.starts)


def by_fastavro(schema: Any, payloads: list[bytes], kind: pa.DataType | None) -> int:  # noqa: ANN401  (JSON)
    """Decode to dictionaries, and from there to an Arrow array of a type, unless there is none; return how many there are."""
    values = [fastavro.schemaless_reader(io.BytesIO(one), schema, None) for one in payloads]
    return len(values if kind is None else pa.array(values, kind))


def by_google(kind: Any, payloads: list[bytes]) -> int:  # noqa: ANN401  (Google's class)
    """Decode to messages; return how many there are."""
    return len([kind.FromString(one) for one in payloads])


def by_json(payloads: list[bytes]) -> int:
    """Decode to dictionaries; return how many there are."""
    return len([json.loads(one) for one in payloads])


def best(runs: int, *works: Callable[[], object]) -> list[float]:
    """Return the least time of each work, s of the processor, all of them in turn."""
    times = []
    for _ in range(runs):
        for work in works:
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
    return [min(times[place :: len(works)]) for place in range(len(works))]


def baseline_of(schema: SchemaInfo, kind: pa.DataType | None) -> tuple[str, Callable[[list[bytes]], int]]:
    """Return a name and a function that decodes payloads; ``kind`` is the Arrow type that it makes of them, None for none."""
    if schema.type == "AVRO":
        parsed = fastavro.parse_schema(json.loads(schema.data))
        name = "fastavro to dictionaries" if kind is None else "fastavro to Arrow"
        return name, lambda payloads: by_fastavro(parsed, payloads, kind)
    if schema.type == "JSON":
        return "Python's json to dictionaries", by_json
    files, root = native_descriptors(schema.data)
    return "Google's Protobuf to messages", partial(by_google, Model.of(files.SerializeToString(), root).type)


def decoding(runs: int, name: str, schema: SchemaInfo, payloads: list[bytes], *, to_arrow: bool = False) -> None:
    """Print one shape of values."""
    decoder, values, few = decoder_of(schema), Values.of(payloads), payloads[::_FEWER]
    theirs, work = baseline_of(schema, decoder.type if to_arrow else None)
    took, their_time = best(runs, partial(values.decode, decoder), partial(work, few))
    rate, their_rate = len(payloads) / took, len(few) / their_time
    goals = {"AVRO": "3 M rows/s, 20 times fastavro to Arrow", "JSON": "1.2 M rows/s", "PROTOBUF_NATIVE": "3 M rows/s"}
    print(
        f"{schema.type} {name}, {values.data.size / len(payloads):.0f} B: {rate / 1e6:.2f} M rows/s, "
        f"{values.data.size / took / 1e6:.0f} MB/s; {theirs} {their_rate / 1e6:.3f} M rows/s; ratio {rate / their_rate:.0f} "
        f"(goal: {goals[schema.type]})"
    )


def golden(runs: int, rows: int) -> None:
    """Print the values of topics that Pulsar wrote."""
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-") as folder, tarfile.open(GOLDEN) as archive:
        archive.extractall(folder)
        for name in GOLDEN_TOPICS:
            found = topic(Path(folder, "pulsar-typed"), f"public/typed/{name}")
            number = max(found.schemas)
            given = zip(found.versions.tolist(), found.rows["value"].to_pylist(), strict=True)
            some = [value for version, value in given if version == number and value is not None]
            decoding(runs, name, found.schemas[number], some * (rows // len(some) + 1))


def primitives(runs: int, rows: int) -> None:
    """Print primitive values against the copy of their bytes."""
    for name, size in PRIMITIVES.items():
        decoder, values = decoder_of(SchemaInfo(name)), Values.of([bytes(size)] * rows)
        took, copied = best(runs, partial(values.decode, decoder), values.copy)
        print(
            f"{name}: {rows / took / 1e6:.0f} M rows/s; their bytes {rows / copied / 1e6:.0f} M; ratio {copied / took:.2f}"
        )


def pairs(runs: int, payloads: list[bytes]) -> None:
    """Print pairs of key and value, INLINE, against their values alone."""
    data = json.dumps({"key": "", "value": orders.EIGHT_FIELDS}).encode()
    properties = {"kv.encoding.type": "INLINE", "key.schema.type": "STRING", "value.schema.type": "AVRO"}
    decoder = decoder_of(SchemaInfo("KEY_VALUE", data, properties))
    alone = decoder_of(orders.AVRO)
    values = Values.of([b"\0\0\0\4key " + len(one).to_bytes(4, "big") + one for one in payloads])
    took, without = best(runs, partial(values.decode, decoder), partial(Values.of(payloads).decode, alone))
    rate = len(payloads) / took / 1e6
    print(f"pairs of text and eight fields: {rate:.2f} M rows/s; ratio to the values alone {without / took:.2f}")


def documents(runs: int, texts: list[bytes]) -> None:
    """Print JSON documents by the type that they are found to have, and how long that takes."""
    values, shapes = Values.of(texts), JsonShapes()
    shapes.look(values.data, values.starts, values.ends)
    by_type = JsonDecoder.of_type(shapes.type)
    look = partial(JsonShapes().look, values.data, values.starts, values.ends)
    rates = [len(texts) / one / 1e6 for one in best(runs, partial(values.decode, by_type), look)]
    print(f"the same without a schema: {rates[0]:.2f} M rows/s, and {rates[1]:.2f} M to find their type")


def scans(runs: int, rows: int) -> None:
    """Print typed scans of topics against scans of their bytes."""
    numbers = pa.table({"value": pa.array(np.arange(rows))})
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-", dir="/dev/shm") as folder:
        made = {
            "AVRO": orders.make_topic(Path(folder, "avro"), orders.table(rows), orders.EIGHT_FIELDS),
            "JSON": orders.make_topic(Path(folder, "json"), orders.table(rows), orders.EIGHT_FIELDS, "json"),
            "INT64": orders.make_topic(Path(folder, "int64"), numbers, None, "int64"),
        }
        goals = {"AVRO": " (goal: 0.5)", "JSON": "", "INT64": " (goal: 1)"}
        for kind, one in made.items():
            for said, columns in (("all columns", None), ("only values", ["value"])):
                typed, plain = best(runs, partial(read, one, columns, "typed"), partial(read, one, columns, "bytes"))
                print(
                    f"scan of {kind}, {said}: {rows / typed / 1e6:.1f} M rows/s; of bytes {rows / plain / 1e6:.1f} M; "
                    f"ratio {plain / typed:.2f}{goals[kind]}"
                )


def read(given: Topic, columns: list[str] | None, values: Literal["bytes", "typed"]) -> int:
    """Read all batches of a scan; return the number of rows."""
    batches: Iterator[pa.RecordBatch] = iter(given.scan(columns, values=values))
    return sum(one.num_rows for one in batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    avro = orders.as_avro(given.rows)
    decoding(given.runs, "of eight fields", orders.AVRO, avro, to_arrow=True)
    pairs(given.runs, avro)
    decoding(given.runs, "of eight fields", orders.protobuf()[0], orders.as_protobuf(given.rows))
    texts = orders.as_json(given.rows)
    decoding(given.runs, "of nine fields", orders.JSON, texts)
    documents(given.runs, texts)
    golden(given.runs, given.rows)
    primitives(given.runs, given.rows)
    scans(given.runs, 5 * given.rows)


if __name__ == "__main__":
    main()
