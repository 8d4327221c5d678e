"""Writing results to MLflow."""
