"""One file per decoding strategy."""
