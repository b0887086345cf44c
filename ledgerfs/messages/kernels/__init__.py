"""Parts of all kernels: wire format, checksums, copying, digits, memory."""
