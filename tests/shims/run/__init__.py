"""`outlast run`: the filter, the supervisor, and programs of every kind."""
