"""Packs, weight streams and the transformer."""
