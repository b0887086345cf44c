"""What is wanted of each topic: a file of policies over what the cluster itself has set."""
