"""The objects of Pulsar's blob offloader: blocks, index, names of objects, user metadata."""
