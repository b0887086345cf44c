"""What `verify` checks of offloaded objects: sizes by the listing, then every byte."""
