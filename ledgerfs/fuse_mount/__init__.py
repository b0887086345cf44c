"""Mount a bucket as a directory: the operations of a mount, and separately the binding to the kernel."""
