"""For code that cannot change: in-process patch, program runner, forwarder, adapters."""
