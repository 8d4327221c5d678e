"""The host side of Lever Farm: sweeps, registry, scheduling, phones, tracking."""
