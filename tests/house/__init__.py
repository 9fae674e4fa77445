"""The gates: what the house plan asks of every file, checked by reading the files."""
