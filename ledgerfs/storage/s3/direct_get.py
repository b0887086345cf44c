"""GETs that botocore signs and sends, without the other work of its client for each request.

The client validates, resolves, emits events and parses: some milliseconds of Python for each request, in which no other thread runs. A
ranged GET needs an address, a signature and the connection. All special cases (other signatures, redirects to another region, encryption
keys) are left to the client.
"""

import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_PLAIN = frozenset({"Bucket", "Key", "Range", "IfMatch"})
_ERRORS = frozenset({403, 404, 412, 416, 429})
_MOST_OF_AN_ERROR = 64 << 10
_CODE = re.compile(rb"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(rb"<Message>([^<]*)</Message>")


class LeanGet:
    """The GETs of one botocore client. Safe in threads."""

    __slots__ = ("_base", "_is_used", "_region", "client")

    def __init__(self, client: Any) -> None:  # noqa: ANN401  (botocore is not typed)
        from botocore import UNSIGNED

        self.client = client
        self._base: dict[str, str] = {}
        self._region = client.meta.region_name if client.meta.region_name not in {None, "aws-global"} else "us-east-1"
        self._is_used = client.meta.config.signature_version in {"s3v4", UNSIGNED}

    def get_object(self, arguments: dict[str, str]) -> dict[str, Any]:
        """Return body and headers as botocore's ``get_object`` does; raises the same errors."""
        if not (self._is_used and set(arguments) <= _PLAIN) or not re.fullmatch(r"[a-z0-9.-]+", arguments["Bucket"]):
            answer: dict[str, Any] = self.client.get_object(**arguments)
            return answer
        response = self._send(arguments)
        if response.status_code in {200, 206}:
            return _answer_of(response)
        if response.status_code in _ERRORS or response.status_code >= 500:
            raise _error_of(response)
        # Another region, or a server with other demands: the client handles them.
        response.raw.close()
        self._is_used = False
        return self.get_object(arguments)

    def _send(self, arguments: dict[str, str]) -> Any:  # noqa: ANN401
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest

        headers = {"Range": arguments["Range"], "User-Agent": self.client.meta.config.user_agent}
        if "IfMatch" in arguments:
            headers["If-Match"] = arguments["IfMatch"]
        url = self._url(arguments["Bucket"], arguments["Key"])
        request = AWSRequest(method="GET", url=url, headers=headers, stream_output=True)
        credentials = self.client._request_signer._credentials  # noqa: SLF001  (there is no public way to them)
        if credentials is not None:
            # Key and token of one moment: credentials that refresh themselves could do so between the two.
            frozen = credentials.get_frozen_credentials()
            S3SigV4Auth(frozen, "s3", self._region).add_auth(request)
        return self.client._endpoint.http_session.send(request.prepare())  # noqa: SLF001  (with its proxies and certificates)

    def _url(self, bucket: str, key: str) -> str:
        """Return an object's address, in the client's style (path or virtual host) for the bucket."""
        base = self._base.get(bucket)
        if base is None:
            signed = self.client.generate_presigned_url(
                "get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60
            )
            base = self._base[bucket] = urlunsplit(urlsplit(signed)._replace(query="")).removesuffix("k")
        from botocore.utils import percent_encode

        return base + str(percent_encode(key, safe="/~"))


def _answer_of(response: Any) -> dict[str, Any]:  # noqa: ANN401
    from botocore.response import StreamingBody

    headers = response.headers
    length = headers.get("Content-Length")
    answer = {"Body": StreamingBody(response.raw, length)}
    names = {"ETag": headers.get("ETag"), "ContentRange": headers.get("Content-Range")}
    answer |= {name: value for name, value in names.items() if value is not None}
    return answer if length is None else {**answer, "ContentLength": int(length)}


def _error_of(response: Any) -> Exception:  # noqa: ANN401
    """Return botocore's error for an error answer."""
    from botocore.exceptions import ClientError

    body = response.raw.read(_MOST_OF_AN_ERROR)
    response.raw.close()
    code, message = (
        found[1].decode(errors="replace") if found else "" for found in (_CODE.search(body), _MESSAGE.search(body))
    )
    headers = {str(name).lower(): value for name, value in response.headers.items()}
    parsed = {
        "Error": {"Code": code or str(response.status_code), "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": response.status_code, "HTTPHeaders": headers},
    }
    error: Exception = ClientError(parsed, "GetObject")
    return error
