"""Speculative decoding: drafting, verification, strategies, metrics."""
