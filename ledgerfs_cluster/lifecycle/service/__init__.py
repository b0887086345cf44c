"""The service: it looks at a cluster again and again, plans, and does what is planned, under the cluster's lock."""
