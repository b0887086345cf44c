"""The checks that `verify` makes on MapFiles."""
