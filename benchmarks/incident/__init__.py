"""The incident table: a node dies behind a Service, and what a dozen kinds of client meet."""
