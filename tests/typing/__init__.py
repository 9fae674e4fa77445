"""What type checkers say of the public face. Checked by mypy, never run."""
