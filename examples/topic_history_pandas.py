"""The history of a topic in pandas: who published how much and when, what the messages say, and the last state of each key.

    python examples/topic_history_pandas.py s3://tier persistent://public/default/orders -o endpoint_url=http://host:9000

Without arguments it reads the bucket that `make demo` unpacks. Cells begin with ``# %%``: VS Code, PyCharm, Spyder and Jupytext run them
one by one.
"""

# %% Which bucket, which topic
import argparse
import sys
from pathlib import Path

import ledgerfs

DEMO = Path(__file__).parent.parent / "demo" / "tier"

parser = argparse.ArgumentParser(description="The history of a topic, in pandas.")
parser.add_argument("bucket", nargs="?", default=str(DEMO), help="URL of the bucket")
parser.add_argument("topic", nargs="?", default="persistent://public/golden/plain", help="name of the topic")
parser.add_argument("-o", "--option", action="append", default=[], metavar="KEY=VALUE", help="option of the filesystem")
args = parser.parse_args([] if "ipykernel" in sys.modules else None)
options = dict(option.split("=", 1) for option in args.option)

# %% The messages, decompressed and taken out of their batches; start_time="2026-11-01" would read the ledgers since then only
topic = ledgerfs.open_bucket(args.bucket, storage_options=options).topic(args.topic)
messages = topic.scan(columns=["publish_time", "producer_name", "key", "value"]).to_pandas()
print(f"{topic.name}: {len(topic.ledgers)} ledgers, {len(messages)} messages")

# %% How much, when
sizes = messages.set_index("publish_time")["value"].str.len()
print(sizes.resample("1min").agg(["size", "sum"]).rename(columns={"size": "messages", "sum": "bytes"}))

# %% By whom
by_producer = messages.groupby("producer_name")["publish_time"].agg(["count", "min", "max"])
print(by_producer.to_string())

# %% What they say: bytes, until somebody says what they are
print(messages["value"].str.decode("utf-8", errors="replace").str.slice(0, 40).value_counts().head(3))

# %% The last state of each key, as a compacted topic has it: a message without a value (a tombstone) deletes its key
keyed = messages.dropna(subset=["key"])
state = keyed.drop_duplicates("key", keep="last").dropna(subset=["value"]).set_index("key")
print(f"{keyed['key'].nunique()} keys, {len(state)} of them have a value")
print(state[["publish_time", "producer_name"]].tail(3))
