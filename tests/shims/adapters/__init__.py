"""Adapters for other clients."""
