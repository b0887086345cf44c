"""What `verify` looks at in MapFiles."""
