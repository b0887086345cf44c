"""The bucket as a directory of the operating system: the operations of a mount, and apart from them the binding to the kernel."""
