"""Hadoop's own MapFiles, by the classes that Spark brings along: those that it writes we read, and the other way round."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ledgerfs.formats.mapfile.first_record import read_metadata_value
from ledgerfs.formats.mapfile.header import Codec, RecordCompression, parse_header
from ledgerfs.formats.mapfile.index import parse_index
from tests.support.mapfiles import SYNC, MapFileWriter, Record, ledger_records, read_all, window_of

NONE, RECORD, BLOCK = RecordCompression
LEDGER = ledger_records(
    b"the metadata of the ledger",
    [random.Random(i).randbytes(i % 300) + b"x" * (i * 37 % 900) for i in range(600)],
)


class Hadoop:
    """Hadoop's writer and reader, a call from here for each record."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self.java, self.gateway = context._jvm, context._gateway
        self.io = self.java.org.apache.hadoop.io

    def write(self, folder: Path, records: list[Record], writer: MapFileWriter) -> None:
        conf = self.java.org.apache.hadoop.conf.Configuration()
        conf.setInt("io.seqfile.compress.blocksize", writer.block_bytes)
        conf.setInt("io.map.index.interval", writer.index_interval)
        options, sequence = getattr(self.io, "MapFile$Writer"), getattr(self.io, "SequenceFile$Writer")
        kind = getattr(getattr(self.io, "SequenceFile$CompressionType"), writer.compression.name)
        codec = self.java.org.apache.hadoop.util.ReflectionUtils.newInstance(self.class_of(writer.codec.value), conf)
        given = [
            options.keyClass(self.class_of("org.apache.hadoop.io.LongWritable")),
            options.valueClass(self.class_of("org.apache.hadoop.io.BytesWritable")),
            options.compression(kind, codec),
            sequence.syncInterval(writer.sync_interval),
        ]
        made = options(conf, self.path(folder), self.array("SequenceFile$Writer$Option", given))
        for key, value in records:
            made.append(self.io.LongWritable(key), self.io.BytesWritable(value))
        made.close()

    def read(self, folder: Path) -> list[Record]:
        conf = self.java.org.apache.hadoop.conf.Configuration()
        reader = getattr(self.io, "MapFile$Reader")(
            self.path(folder), conf, self.array("SequenceFile$Reader$Option", [])
        )
        key, value = self.io.LongWritable(), self.io.BytesWritable()
        found = []
        while reader.next(key, value):
            found.append((key.get(), bytes(value.copyBytes())))
        reader.close()
        return found

    def class_of(self, name: str) -> Any:
        return self.java.java.lang.Class.forName(name)

    def path(self, folder: Path) -> Any:
        return self.java.org.apache.hadoop.fs.Path(f"file://{folder}")

    def array(self, kind: str, values: list[Any]) -> Any:
        made = self.gateway.new_array(getattr(self.io, kind), len(values))
        for i, value in enumerate(values):
            made[i] = value
        return made


@pytest.fixture
def hadoop(spark: SparkSession) -> Hadoop:
    return Hadoop(spark)


@pytest.mark.parametrize("compression", [NONE, RECORD, BLOCK])
@pytest.mark.parametrize(("sync_interval", "block_bytes"), [(102_400, 1_000_000), (2000, 10_000), (100, 100)])
def test_what_hadoop_writes_is_read(
    hadoop: Hadoop, tmp_path: Path, compression: RecordCompression, sync_interval: int, block_bytes: int
) -> None:
    writer = MapFileWriter(compression, sync_interval=sync_interval, block_bytes=block_bytes)
    hadoop.write(tmp_path / "ledger", LEDGER, writer)
    data, index = ((tmp_path / "ledger" / name).read_bytes() for name in ("data", "index"))
    window = window_of(data, 0, len(data))
    header = parse_header(window)
    assert header is not None
    assert (header.compression, header.codec) == (compression, None if compression is NONE else Codec.DEFAULT)
    assert read_metadata_value(window, header) == LEDGER[0][1]
    assert read_all(data) == read_all(data, window_bytes=1000) == LEDGER
    parsed = parse_index(index, data_size=len(data))
    for key, position in zip(parsed.keys.tolist(), parsed.positions.tolist(), strict=True):
        assert LEDGER[key + 1] in read_all(data, start=position)
    # The writer of the tests is as Hadoop's: to the byte where no zlib has a say, and in its index.
    ours, our_index = MapFileWriter(
        compression, sync_interval=sync_interval, block_bytes=block_bytes, sync=header.sync
    ).files(LEDGER)
    assert compression is not NONE or data == ours
    assert parse_index(our_index, data_size=len(ours)).keys.tolist() == parsed.keys.tolist()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("compression", [NONE, RECORD, BLOCK])
def test_hadoop_reads_what_the_writer_of_the_tests_writes(
    hadoop: Hadoop, tmp_path: Path, compression: RecordCompression, codec: Codec
) -> None:
    data, index = MapFileWriter(compression, codec, sync_interval=2000, block_bytes=10_000, sync=SYNC).files(LEDGER)
    (tmp_path / "data").write_bytes(data)
    (tmp_path / "index").write_bytes(index)
    assert hadoop.read(tmp_path) == LEDGER == read_all(data)
