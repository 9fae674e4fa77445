"""What the documentation promises: its examples run, its links lead somewhere, its tables hold."""
