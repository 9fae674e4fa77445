"""Programs that cannot be changed, run unmodified through incident A, under every shim."""
