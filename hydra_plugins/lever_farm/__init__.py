"""Our launcher, sweeper and search path for Hydra: thin and free of Ray."""
