"""Entry bytes to messages. No storage. Today: the frame around an entry's message and its checksum."""
