"""Entries to Arrow tables of messages, and back: frames, batches, compression, chunks, encryption, transforms. No I/O."""
