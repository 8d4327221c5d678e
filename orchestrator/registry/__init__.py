"""The farm's durable truth."""
