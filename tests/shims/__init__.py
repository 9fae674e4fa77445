"""The shims: scope and settings, patch, runner, forwarder, adapters."""
