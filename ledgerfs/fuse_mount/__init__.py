"""The bucket as a directory of the operating system: what a mount does, and the kernel's way to it, apart from each other."""
