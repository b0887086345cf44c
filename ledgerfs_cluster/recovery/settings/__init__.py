"""Restore tenants, namespaces, policies and schemas through the new cluster's brokers."""
