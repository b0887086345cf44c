"""Messages as text: JSON lines and their parts."""
