"""What Spark has the data source do that writes a DataFrame: plan, write each partition, commit; without any Spark."""

from collections.abc import Sequence
from unittest import mock

from pyspark.sql.pandas.types import from_arrow_schema

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.object_names import LedgerKey
from ledgerfs.spark import data_sink
from ledgerfs.spark.data_sink import WrittenPartition, open_sink
from ledgerfs.spark.storage import Storage
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

    with world.acting(actor, meeting, content_of) as running, _using(actor, number):
        try:
            partitions = [Rows([one for one in content.messages if isinstance(one, Row)]) for content in contents]
            schema = from_arrow_schema(partitions[0].schema)
            options = {"path": world.places[number].url, "topic": topic, "blockSize": str(5 << 20)}
            sink = open_sink(options, schema, overwrite=False)
            told: list[WrittenPartition] = []
            for partition, rows in enumerate(partitions):
                with mock.patch.object(data_sink, "_task", lambda partition=partition: (partition, 0)):
                    told.append(sink.write(rows.batches()))
                ledger = told[-1].ledger
                assert ledger is not None
                partition_of[ledger.ledger.key.uuid] = partition
                actor.met("batch")
            sink.commit(told)
        except LedgerfsError as error:
            world.require_nothing_left(number, running, error)
            return
        written = [one.ledger.ledger.key for one in told if one.ledger is not None]
        assert len(written) == len(contents)
        world.acknowledge(number, running, [(key.uuid, key.ledger_id) for key in written])


def _using(actor: Actor, number: int) -> "mock._patch[object]":
    """Have the sink write through the store of an actor."""
    return mock.patch.object(Storage, "bucket", return_value=actor.bucket(number))
