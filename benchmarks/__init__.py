"""Benchmarks: each prints ratios against a baseline measured in the same run. Run as ``python -m benchmarks.<name>``."""
