"""Protobuf messages inside the objects. ``make protos`` generates ``*_pb2.py`` from the ``.proto`` file beside it."""
