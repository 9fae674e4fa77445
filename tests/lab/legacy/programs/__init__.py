"""The programs: plain scripts that know nothing of outlast. See `loop` for what they print."""
