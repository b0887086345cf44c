"""Messages as text: JSON lines and what they are made of."""
