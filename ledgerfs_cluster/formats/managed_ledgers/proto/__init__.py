"""Protobuf messages inside the objects. ``*_pb2.py`` is generated from the ``.proto`` beside it by ``make protos``."""
