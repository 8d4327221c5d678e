"""GGUF files into packs, and the model store."""
