"""The forwarder: its decisions, its sockets, its command."""
