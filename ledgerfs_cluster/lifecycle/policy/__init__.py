"""Rules of each topic: a policy file that overrides the cluster's own policies."""
