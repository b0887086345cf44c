"""Local folders as object stores."""
