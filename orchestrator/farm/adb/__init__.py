"""ADB transports behind one contract."""
