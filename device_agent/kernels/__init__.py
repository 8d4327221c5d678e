"""Tensor programs: ggml for speed, numpy as the truth."""
