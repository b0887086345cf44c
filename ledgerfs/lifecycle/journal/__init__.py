"""What is going to be deleted, written down in the cluster's own metadata before anything is."""
