"""What is left of the lost cluster besides its bucket: its dump."""
