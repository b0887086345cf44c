"""The files that a task of an export writes: the messages of its part, one file for each folder.

Messages are written as they come while they are of one folder; mixed ones are gathered up to a limit and sorted, so that each folder gets
few files. Memory is bounded by that limit, and by the number of files that are open at a time.
"""

import io
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from ledgerfs.formats.buffers import Buffer
from ledgerfs.spark.lake.layout import LakeLayout
from ledgerfs.storage.object_writes import Upload
from ledgerfs.tables.table_files import TableWriter, open_table

PART_BYTES = 8 << 20
"""Files go to a remote store in parts of so many bytes, some at a time."""

_GATHERED_BYTES = 64 << 20
_MOST_OPEN = 8


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task wrote.

    Attributes
    ----------
    folder
        Its final folder, below the lake: ``topic=…/date=…``; empty for the lake itself.
    staged
        Its name until then, in the folder of the attempt.
    messages, size
        Number of messages, and bytes.

    """

    folder: str
    staged: str
    messages: int
    size: int


class LakeFiles:
    """Files of one part of a topic, for one thread. The caller closes or abandons them.

    Parameters
    ----------
    layout
        Which folder a message goes to.
    schema, kind
        Columns of the files, and one of `TABLE_KINDS`.
    begin
        Begins to write the file with a number: returns its name, and the upload.

    """

    def __init__(
        self, layout: LakeLayout, schema: pa.Schema, kind: str, begin: Callable[[int], tuple[str, Upload]]
    ) -> None:
        self._layout = layout
        self._schema = schema
        self._kind = kind
        self._begin = begin
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._begun = 0
        self._done: list[StagedFile] = []
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Write messages, with the columns of the files and those of the layout."""
        folders = list(self._layout.split(batch)) if not self._gathered else []
        if len(folders) == 1:
            self._write(folders[0][0], batch)
            return
        self._gathered.append(batch)
        self._gathered_bytes += batch.nbytes
        if self._gathered_bytes >= _GATHERED_BYTES:
            self._write_gathered()

    def close(self) -> list[StagedFile]:
        """Finish all files, and return them."""
        self._write_gathered()
        while self._open:
            self._close_oldest()
        return self._done

    def abandon(self) -> None:
        """Abort the files that are not finished, after an error."""
        while self._open:
            self._open.popitem()[1].abandon()

    def _write_gathered(self) -> None:
        if not self._gathered:
            return
        batch = pa.concat_batches(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        for folder, rows in self._layout.split(batch):
            # A copy: a slice would keep all gathered messages in memory.
            self._write(folder, batch if rows is None else batch.take(pa.array(rows)))

    def _write(self, folder: str, batch: pa.RecordBatch) -> None:
        file = self._open.get(folder)
        latest = next(reversed(self._open.values()), None)
        if latest is not None and latest is not file:
            # Only one file has a row group in memory.
            latest.writer.flush()
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._close_oldest()
            file = self._open[folder] = self._new()
        self._open.move_to_end(folder)
        file.writer.write(batch.select(self._schema.names))

    def _new(self) -> "_OpenFile":
        name, upload = self._begin(self._begun)
        self._begun += 1
        sink = _UploadSink(upload)
        try:
            return _OpenFile(name, sink, open_table(self._schema, sink, self._kind))  # type: ignore[arg-type]
        except BaseException:
            upload.abort()
            raise

    def _close_oldest(self) -> None:
        folder, file = next(iter(self._open.items()))
        file.writer.close()
        size = file.sink.upload.complete().size
        del self._open[folder]
        self._done.append(StagedFile(folder, file.name, file.writer.rows, size))


@dataclass(frozen=True, slots=True)
class _OpenFile:
    name: str
    sink: "_UploadSink"
    writer: TableWriter

    def abandon(self) -> None:
        try:
            self.sink.is_given_up = True
            self.writer.abandon()
        finally:
            self.sink.upload.abort()


class _UploadSink(io.RawIOBase):
    """An upload as a file that is written to."""

    def __init__(self, upload: Upload) -> None:
        super().__init__()
        self.upload = upload
        self.is_given_up = False
        self._in_part = 0
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Buffer) -> int:  # type: ignore[override]
        """Take all of it; bytes that a writer adds after it was abandoned are dropped."""
        left = memoryview(data).cast("B")
        size = left.nbytes
        while left.nbytes and not self.is_given_up:
            if self._in_part == PART_BYTES:
                self.upload.end_part()
                self._in_part = 0
            piece = left[: PART_BYTES - self._in_part]
            self.upload.write(piece)
            self._in_part += piece.nbytes
            left = left[piece.nbytes :]
        self._written += size
        return size
