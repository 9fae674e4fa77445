"""The dialler, the seam and what lies between them and the kernel."""
