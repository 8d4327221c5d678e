"""The farm as a background service: supervisor, up, down, status."""
