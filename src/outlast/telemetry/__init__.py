"""Events as metrics and span events: for OpenTelemetry, and for Prometheus.

A room on top: it listens to `outlast.events` and reads snapshots, and nothing of the library
knows it. Each exporter is imported only by who uses it, and needs its extra
(`outlast[opentelemetry]`, `outlast[prometheus]`).
"""
