"""Hadoop's MapFile, as Pulsar's filesystem offloader writes it, one per ledger: bytes to values, no I/O.

A MapFile is a folder of two SequenceFiles (version 6): ``data`` (the records) and ``index`` (positions of some of them). Keys are
``LongWritable``, values ``BytesWritable``: key -1 has the ledger's metadata, keys 0 … last entry the entries.
"""
