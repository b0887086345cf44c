"""The bucket of the typed golden set, with what the admin API answered of its schemas saved in it."""

import json
import shutil
from pathlib import Path

from ledgerfs import open_bucket
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas


def typed_bucket(golden_typed: Path, folder: Path) -> str:
    """Make it in a folder that does not exist, and return its URL."""
    shutil.copytree(golden_typed / "bucket", folder)
    url = f"file://{folder}"
    saved = SavedSchemas(open_bucket(url).raw_store)
    for topic, versions in answers(golden_typed).items():
        saved.add(topic, versions)
    return url


def answers(golden_typed: Path) -> dict[str, tuple[SchemaVersion, ...]]:
    """Return the versions that the admin API listed of each topic."""
    found = {}
    for path in (golden_typed / "schemas").iterdir():
        document = json.loads(path.read_text())
        for asked, answer in document.get("responses", {}).items():
            if asked.endswith("/schemas") and answer["status"] == 200:
                listed = json.loads(answer["body"])["getSchemaResponses"]
                found[document["topic"]] = tuple(
                    SchemaVersion(
                        one["version"],
                        SchemaInfo(one["type"], one["data"].encode(), one["properties"]),
                        one["timestamp"],
                    )
                    for one in listed
                )
    return found
