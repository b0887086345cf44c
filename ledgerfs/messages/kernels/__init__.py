"""What all kernels are made of: wire format, checksums, copying, digits, memory."""
