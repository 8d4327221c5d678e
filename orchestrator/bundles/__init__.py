"""Building what a real phone's agent runs on: Python, numpy and ggml for its processor."""
