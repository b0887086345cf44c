"""Topics exported to folders of files."""
