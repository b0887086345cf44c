"""Access to ZooKeeper nodes, over kazoo.

Begin with `nodes.py` (read-only) and `changes.py` (commits under a cluster's lock, the only writes). Both use a client (`client.py`: one
retry loop) over sessions (`session.py`); `node.py` contains nodes, operations on them, and requests and replies.
"""
