"""Protobuf messages around a payload. The bulk path does not use them: kernels walk the bytes. Tests and writers do."""
