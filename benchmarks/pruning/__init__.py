"""The study of mid-layer pruning on a real pair: collect, fit, replay (docs/pruning.md)."""
