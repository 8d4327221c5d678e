"""The lever command: thin, one file per command group."""
