"""Tenants, namespaces, policies and schemas, set again through the new cluster's brokers."""
