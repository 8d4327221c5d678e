"""The only place that imports ray."""
