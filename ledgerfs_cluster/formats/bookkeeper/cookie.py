"""The cookie of a bookie: the file ``VERSION`` by which it recognizes its folders (``docs/formats/entry-logs.md``).

The first line is the version of the layout, the others are Protobuf's text format. Fields of later versions are ignored.
"""

import re
from dataclasses import dataclass

from google.protobuf import text_format

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.formats.proto.metadata_pb2 import CookieText

MOST_COOKIE_BYTES = 64 << 10
_OLDEST_LAYOUT = 4
_LAYOUT = re.compile(rb"\s*(\d{1,9})\s*")


@dataclass(frozen=True, slots=True)
class Cookie:
    """The owner of a bookie's folder.

    Attributes
    ----------
    bookie_id
        The bookie's id in ensembles: ``host:port``, or its configured name.
    instance_id
        The cluster's id; None if the bookie was started without one.

    """

    bookie_id: str
    instance_id: str | None


def parse_cookie(data: bytes, *, key: str) -> Cookie:
    """Parse a file named ``key``.

    Raises `CorruptMetadataError` for anything else, for more than 64 KiB, and for a layout older than 4.
    """
    if len(data) > MOST_COOKIE_BYTES:
        raise CorruptMetadataError(f"the cookie is too large: more than {MOST_COOKIE_BYTES} bytes", key=key)
    first, _, fields = data.partition(b"\n")
    layout = _LAYOUT.fullmatch(first)
    if not layout or int(layout[1]) < _OLDEST_LAYOUT:
        raise CorruptMetadataError(f"the cookie has an unknown layout version {first[:40]!r}", key=key, offset=0)
    try:
        text = text_format.Parse(fields, CookieText(), allow_unknown_field=True)
        bookie_id, instance_id = text.bookieHost.decode(), text.instanceId.decode()
    except (text_format.ParseError, ValueError) as error:
        reason = f"the cookie is not valid Protobuf text: {str(error)[:100]}"
        raise CorruptMetadataError(reason, key=key, offset=len(first) + 1) from error
    if not bookie_id.isprintable() or not bookie_id or " " in bookie_id or "/" in bookie_id:
        raise CorruptMetadataError(f"the cookie has an invalid bookie id {bookie_id[:40]!r}", key=key)
    return Cookie(bookie_id, instance_id or None)
