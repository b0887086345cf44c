"""What the URL of a living cluster begins with; any other CLUSTER is the file of a dump."""

SCHEME = "pulsar+zk://"
