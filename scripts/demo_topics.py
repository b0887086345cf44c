"""Leave topics with schemas in a bucket: what a real Pulsar wrote, copied, with the schemas that its admin API told saved beside it.

Run from the root of a clone: ``python -m scripts.demo_topics GOLDEN TARGET``, where GOLDEN is the folder of the unpacked typed golden set.
"""

import sys
from pathlib import Path

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.typed_golden import answers

TOPICS = [f"persistent://public/typed/{name}" for name in ("py-avro", "py-json", "avro-evolved", "avro-deleted-force")]
"""Avro and JSON; Avro in three versions that differ; one whose first schema was deleted before anybody saved it."""


def main(golden: Path, target: Path) -> None:
    """Make the bucket."""
    target.mkdir()
    copy_ledgers(f"file://{golden / 'bucket'}", str(target), topics=TOPICS)
    saved = SavedSchemas(open_bucket(str(target)).raw_store)
    reported = answers(golden)
    for topic in TOPICS:
        saved.add(topic, reported[topic])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
