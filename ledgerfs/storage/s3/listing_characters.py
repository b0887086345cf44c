"""Replace control characters in listings by U+FFFD.

Some stores send them in keys, although XML does not allow them; one such key would make the whole bucket unreadable. Pulsar's have none.
"""

import re
from typing import Any

_ILLEGAL = re.compile(
    rb"&#(?:[xX]0*(?:[0-8bBcCeEfF]|1[0-9a-fA-F])|0*(?:[0-8]|1[1245-9]|2[0-9]|3[01]));|[\x00-\x08\x0b\x0c\x0e-\x1f]"
)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
_LISTING = b"<ListBucketResult"
_EVENT = "before-parse.s3.ListObjectsV2"


def accept_control_characters(client: Any) -> None:  # noqa: ANN401  (botocore is not typed)
    """Make a client replace control characters in its listings; a second call for the same client has no effect."""
    client.meta.events.register_last(_EVENT, _replace, unique_id="ledgerfs-listing-characters")


def _replace(response_dict: dict[str, Any], **_: object) -> None:
    body = response_dict["body"]
    if _LISTING in body[:1024] and _ILLEGAL.search(body):
        # botocore has set the status to 500, since it could not parse the body.
        response_dict.update(status_code=200, body=_ILLEGAL.sub(_REPLACEMENT, body))
