"""Exporters against the real packages."""
