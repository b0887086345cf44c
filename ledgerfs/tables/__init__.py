"""Rows as files (Parquet, JSON lines, Arrow, CSV), and files as rows."""
