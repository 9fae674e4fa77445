"""The command: the pure parts as tables, the rest in processes of its own."""
