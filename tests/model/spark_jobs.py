"""What Spark has the data source do: plan, read or write each part, commit; without any Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from pyspark.sql.pandas.types import from_arrow_schema

from ledgerfs.bucket.partitions import Partition
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source import data_sink
from ledgerfs.spark.source.data_sink import WrittenPartition, open_sink
from ledgerfs.spark.source.message_rows import read_partition
from ledgerfs.spark.source.planning import plan
from ledgerfs.spark.source.read_options import read_options
from tests.model.bucket_model import Content, Row
from tests.model.meetings import Meeting
from tests.model.world import Actor, World
from tests.model.writing import Rows


def write(world: World, actor: Actor, number: int, contents: Sequence[Content], *, meeting: Meeting | None) -> None:
    """Write one ledger for each content, all of them or none."""
    model = world.models[number]
    actor.seen.setdefault(number, model.moment)
    topic = contents[0].topic
    partition_of: dict[str, int] = {}

    def content_of(key: LedgerKey, index: object) -> Content:
        return contents[partition_of[key.uuid]]

    with world.acting(actor, meeting, content_of) as running, using(actor, number):
        try:
            partitions = [Rows([one for one in content.messages if isinstance(one, Row)]) for content in contents]
            schema = from_arrow_schema(partitions[0].schema)
            options = {"path": world.places[number].url, "topic": topic, "blockSize": str(5 << 20)}
            sink = open_sink(options, schema, overwrite=False)
            reported: list[WrittenPartition] = []
            for partition, rows in enumerate(partitions):
                with mock.patch.object(data_sink, "_task", lambda partition=partition: (partition, 0)):
                    reported.append(sink.write(rows.batches()))
                ledger = reported[-1].ledger
                assert ledger is not None
                partition_of[ledger.ledger.key.uuid] = partition
                actor.met()
            sink.commit(reported)
        except LedgerfsError as error:
            world.require_nothing_left(number, running, error)
            return
        written = [one.ledger.ledger.key for one in reported if one.ledger is not None]
        assert len(written) == len(contents)
        world.acknowledge(number, running, [(key.uuid, key.ledger_id) for key in written])


def read(actor: Actor, number: int, topic: str) -> list[str]:
    """Return a topic's values, read in parts that are as small as can be, each as a task of its own does."""
    place = actor.world.places[number]
    found: list[str] = []
    with using(actor, number):
        options = read_options({"path": place.url, "topic": topic, "partitionBytes": "1"})
        for reported in plan(options).reported():
            actor.met()
            with using(actor, number):
                scan = replace(options.scan, columns=("value",))
                for batch in read_partition(Partition.of(reported), options.storage, scan):
                    found += [value.decode() for value in batch.column("value").to_pylist()]
    return found


@contextmanager
def using(actor: Actor, number: int) -> Iterator[None]:
    """Have the data source use a bucket as an actor has it opened."""
    opened = actor.bucket(number)
    with (
        mock.patch.object(Storage, "bucket", return_value=opened),
        mock.patch.object(Storage, "open", return_value=opened),
    ):
        yield
