"""Copy an object within its bucket: by the store itself if possible, otherwise through this process."""

from collections.abc import Mapping

from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.object_writes import CopyingUpload, Upload
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_PIECE = 8 << 20


def copy_object(
    store: RawStore, source: ObjectStat, key: str, metadata: Mapping[str, str], part_size: int
) -> ObjectStat:
    """Copy an object in parts of ``part_size`` bytes, with its own user metadata.

    Raises `ObjectExistsError` if another object has the key, `StaleObjectError` if the source's version has changed, and the errors of the
    store; the copy does not exist then, except after `UncertainWriteError`.
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
