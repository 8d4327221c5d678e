"""Pure choices: who runs what, next."""
