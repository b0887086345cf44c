"""The service: it repeatedly takes a snapshot of a cluster, plans, and carries out the plan, under the cluster's lock."""
