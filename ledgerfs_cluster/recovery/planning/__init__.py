"""What is to become of each topic: pure functions of a catalog, a dump and disks."""
