"""From a configuration to trials, and from trials to tables."""
