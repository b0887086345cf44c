"""Nodes of a ZooKeeper, over kazoo.

Begin with `nodes.py` (reads, and cannot write) and `changes.py` (commits under the lock of a cluster, the only writes). Both use a client
(`client.py`: one retry loop) over sessions (`session.py`); `node.py` has nodes, operations on them, and requests and replies.
"""
