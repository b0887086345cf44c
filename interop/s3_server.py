"""A real S3 server over a folder: versitygw, one process a folder."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from interop import machine
from interop.processes import Processes, free_ports

ACCESS_KEY = "interop"
SECRET_KEY = "interop-secret"  # of a server on loopback that lives for minutes
BUCKET = "tier"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1"}


@dataclass
class S3Server:
    """A server with the bucket ``tier``; it keeps its folder and its port when it is stopped and started again."""

    name: str
    folder: Path
    processes: Processes
    port: int = field(default_factory=lambda: free_ports(1)[0])

    def start(self) -> "S3Server":
        """Serve the folder; the first time, with an empty bucket."""
        (self.folder / BUCKET).mkdir(parents=True, exist_ok=True)
        keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY]
        command = [str(machine.gateway()), *keys, "--port", f"127.0.0.1:{self.port}", "posix", str(self.folder)]
        self.processes.start(self.name, command, {}, self.port, seconds=300)
        return self

    def stop(self) -> None:
        """Stop serving; the folder stays."""
        self.processes.stop(self.name)

    @property
    def endpoint(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Options of the fsspec filesystem for it."""
        return {"endpoint_url": self.endpoint, "key": ACCESS_KEY, "secret": SECRET_KEY}

    def objects(self) -> dict[str, dict[str, str]]:
        """Return the user metadata of every object; what is deleted meanwhile is left out."""
        client = self._client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        found = {}
        for key in keys:
            try:
                found[key] = client.head_object(Bucket=BUCKET, Key=key)["Metadata"]
            except client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] != "404":
                    raise
        return found

    def names(self) -> set[str]:
        """Return the keys of all objects, as they lie in the folder: without a request, and also while nobody serves it."""
        return {one.name for one in (self.folder / BUCKET).iterdir() if not one.name.startswith(".")}

    def unfinished_uploads(self) -> list[str]:
        """Return the keys of multipart uploads that were neither completed nor given up."""
        pages = self._client().get_paginator("list_multipart_uploads").paginate(Bucket=BUCKET)
        return [one["Key"] for page in pages for one in page.get("Uploads", [])]

    def bytes_of(self, key: str) -> bytes:
        """Return an object as it lies in the folder."""
        return (self.folder / BUCKET / key).read_bytes()

    def put(self, key: str, body: bytes, metadata: dict[str, str]) -> None:
        """Write an object with user metadata."""
        self.put_all([(key, body, metadata)])

    def put_all(self, objects: Iterable[tuple[str, bytes, dict[str, str]]]) -> None:
        """Write objects: key, bytes, user metadata."""
        client = self._client()
        for key, body, metadata in objects:
            client.put_object(Bucket=BUCKET, Key=key, Body=body, Metadata=metadata)

    def _client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )
