"""Write to S3-compatible stores: uploads in parts, and small objects in one request; neither overwrites another object."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ledgerfs.errors import BucketNotFoundError, LedgerfsError, ObjectExistsError, ObjectNotFoundError, StoreError
from ledgerfs.storage.failures import code_of, replaced, uncertain
from ledgerfs.storage.listed_pages import stalled_listing
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ObjectStat, ReadRequest
from ledgerfs.storage.s3.properties import read_properties
from ledgerfs.storage.s3.requests import create, is_unknown_condition, require_absent
from ledgerfs.storage.s3.upload import S3Upload
from ledgerfs.storage.sent_requests import Asked

if TYPE_CHECKING:
    from ledgerfs.storage.s3.store import S3Store

_SMALLEST_PART = 5 << 20
_MOST_PARTS = 10_000
_LARGEST_COPY = 5 << 30
_COPIED_PART = 512 << 20


class S3Writes:
    """`WritableStore` of a bucket, or a prefix in one."""

    __slots__ = ("_store",)

    smallest_part = _SMALLEST_PART
    most_parts = _MOST_PARTS
    keeps_metadata = True
    can_set_metadata = True

    def __init__(self, store: "S3Store") -> None:
        self._store = store

    def make_folder(self) -> None:
        """Do nothing: S3 has no folders."""

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> S3Upload:
        """Return an upload, which begins in the store with the end of its first part."""
        return S3Upload(self._store, key, metadata, part_size)

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> ObjectStat:
        """Send one PUT and check its answer; without an answer, check the object."""
        asked = Asked("PUT", key, 0, len(data))
        arguments = {"Key": key, "Body": data, "Metadata": dict(metadata), "ContentType": "application/octet-stream"}
        try:
            require_absent(self._store, key)
        except ObjectExistsError as error:
            if not self._is_there(key, data, error):
                raise
        else:
            self._create(data, asked, arguments)
        try:
            stat = self._store.head(key).stat
        except ObjectNotFoundError:
            raise
        except LedgerfsError as error:
            raise uncertain(key, error) from error
        if stat.size != len(data):
            raise uncertain(key, StoreError(f"the store has {stat.size} bytes, but {len(data)} were written", key=key))
        return stat

    def _create(self, data: bytes, asked: Asked, arguments: dict[str, Any]) -> None:
        try:
            create(self._store, asked, "put_object", **arguments)
        except LedgerfsError as error:
            if not self._is_there(asked.key, data, error):
                raise

    def delete(self, key: str) -> None:
        """Send one DELETE; raises `BucketNotFoundError` if the store reports a missing bucket instead of an object."""
        try:
            self._store.request(Asked("DELETE", key), "delete_object", Key=key)
        except ObjectNotFoundError as error:
            if code_of(error.__cause__ or error) == "NoSuchBucket":
                raise BucketNotFoundError("no such bucket", key=key) from error

    def set_metadata(self, stat: ObjectStat, metadata: Mapping[str, str]) -> None:
        """Copy the object onto itself with all its properties (`S3Properties`), in parts if it is too large for one copy.

        Loses only the ACL, which S3 does not copy. Raises `UnsupportedWriteError` for an object that would lose other properties,
        `StaleObjectError` for another version, and `StoreError` if the store dropped properties.
        """
        kept = read_properties(self._store, stat.key, stat.version)
        new: dict[str, Any] = {"Metadata": dict(metadata), **kept.headers, **kept.tagging}
        source: dict[str, Any] = {
            "CopySource": stat.key,
            **({"CopySourceIfMatch": stat.version} if stat.version else {}),
        }
        if stat.size > _LARGEST_COPY:
            self._copy_in_parts(stat, new, source)
        else:
            arguments: dict[str, Any] = {"MetadataDirective": "REPLACE", **source, **new}
            if kept.tags:
                arguments["TaggingDirective"] = "REPLACE"
            self._store.request(Asked("PUT", stat.key), "copy_object", Key=stat.key, **arguments)
        if lost := kept.missing_in(read_properties(self._store, stat.key, "")):
            reason = f"its user metadata was changed, but the store did not keep its {', '.join(lost)}"
            raise StoreError(reason, key=stat.key)

    def unfinished_uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield the unfinished uploads that the store lists; raises `StoreError` if it cannot list them."""
        marker: dict[str, Any] = {}
        seen: set[tuple[str, str]] = set()
        while True:
            page = self._store.request(Asked("LIST", "uploads"), "list_multipart_uploads", Prefix="", **marker)
            new = {(item["Key"], item["UploadId"]): item for item in page.get("Uploads", [])}
            new = {upload: item for upload, item in new.items() if upload not in seen}
            seen.update(new)
            for (name, token), item in new.items():
                key = self._store.relative(name)
                if key is not None:
                    yield UnfinishedUpload(key, token, int(item["Initiated"].timestamp() * 1000))
            if not page.get("IsTruncated"):
                return
            if not new:
                raise stalled_listing("uploads", len(seen))
            last_key, last_token = max(seen)
            marker = {
                "KeyMarker": page.get("NextKeyMarker", last_key),
                "UploadIdMarker": page.get("NextUploadIdMarker", last_token),
            }

    def end_unfinished(self, upload: UnfinishedUpload) -> None:
        """Abort the upload."""
        try:
            asked = Asked("DELETE", upload.key)
            self._store.request(asked, "abort_multipart_upload", Key=upload.key, UploadId=upload.token)
        except ObjectNotFoundError:
            return

    def _is_there(self, key: str, data: bytes, error: LedgerfsError) -> bool:
        """Return whether the object has these bytes despite an error or a missing answer, from an earlier try."""
        try:
            stat = self._store.head(key).stat
            return stat.size == len(data) and self._store.read(ReadRequest(key, 0, stat.size, stat.version)) == data
        except ObjectNotFoundError:
            return False
        except LedgerfsError:
            if isinstance(error, ObjectExistsError):
                raise error from None
            raise uncertain(key, error) from error

    def _copy_in_parts(self, stat: ObjectStat, new: dict[str, Any], source: dict[str, Any]) -> None:
        key = stat.key
        begun = self._store.request(Asked("POST", key), "create_multipart_upload", Key=key, **new)
        upload, parts = UnfinishedUpload(key, begun["UploadId"], 0), []
        try:
            for number, start in enumerate(range(0, stat.size, _COPIED_PART), 1):
                part: dict[str, Any] = {
                    "CopySourceRange": f"bytes={start}-{min(start + _COPIED_PART, stat.size) - 1}",
                    "PartNumber": number,
                }
                answer = self._store.request(
                    Asked("PUT", key), "upload_part_copy", Key=key, UploadId=upload.token, **source, **part
                )
                parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
            made: dict[str, Any] = {"UploadId": upload.token, "MultipartUpload": {"Parts": parts}}
            self._put_in_place_of(stat, made)
        except BaseException:
            self.end_unfinished(upload)
            raise

    def _put_in_place_of(self, stat: ObjectStat, made: dict[str, Any]) -> None:
        """Complete an upload, unless the replaced object has changed; not all stores support the condition."""
        if stat.version and self._store.head(stat.key).stat.version != stat.version:
            raise replaced(stat.key)
        asked = Asked("POST", stat.key)
        match: dict[str, Any] = {"IfMatch": stat.version} if stat.version else {}
        try:
            self._store.request(asked, "complete_multipart_upload", Key=stat.key, **match, **made)
        except StoreError as error:
            if not (match and is_unknown_condition(error)):
                raise
            self._store.request(asked, "complete_multipart_upload", Key=stat.key, **made)
