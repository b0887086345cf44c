"""Entries to messages, as Arrow tables, and back: frames, batches, compression, chunks, encryption, transforms. No I/O."""
