"""Sweeps: configurations into trials, into the registry, and followed until they are done."""
