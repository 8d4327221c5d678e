"""MLflow's server with our pages in it."""
