"""The report of one event: what the journal knows of it, as a page for a post-mortem."""
