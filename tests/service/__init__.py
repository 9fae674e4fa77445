"""The endpoint table, and sockets for callers of plain connects."""
