"""Copying an object within its bucket: by the store itself where it can, otherwise through this process."""

from collections.abc import Mapping

from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.object_writes import CopyingUpload, Upload
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_PIECE = 8 << 20


def copy_object(
    store: RawStore, source: ObjectStat, key: str, metadata: Mapping[str, str], part_size: int
) -> ObjectStat:
    """Write an object that has the bytes of another one and user metadata of its own, in parts of ``part_size`` bytes.

    Raises `ObjectExistsError` if there is another object with the key, `StaleObjectError` if the source is not of this version any more,
    and the errors of the store; there is no such object then, except after `UncertainWriteError`.
    """
    upload = store.writes.begin_upload(key, metadata, part_size)
    try:
        for start in range(0, source.size, part_size):
            end = min(start + part_size, source.size)
            if isinstance(upload, CopyingUpload):
                upload.copy_part(source, start, end)
            else:
                _write_part(store, upload, source, start, end)
        return upload.complete()
    except BaseException:
        upload.abort()
        raise


def _write_part(store: RawStore, upload: Upload, source: ObjectStat, start: int, end: int) -> None:
    for at in range(start, end, _PIECE):
        upload.write(store.read(ReadRequest(source.key, at, min(at + _PIECE, end), source.version, is_kept=False)))
    upload.end_part()
