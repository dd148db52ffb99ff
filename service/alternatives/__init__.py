"""What would make a run fit that does not: the smallest changes of its spec, each with its price."""
