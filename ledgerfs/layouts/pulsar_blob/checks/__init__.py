"""The checks of offloaded objects for `verify`: sizes by the listing, then every byte."""
