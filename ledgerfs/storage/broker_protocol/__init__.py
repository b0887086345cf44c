"""Reading topics through brokers, as a client does: connections, who has a topic, and entries as they are sent."""
