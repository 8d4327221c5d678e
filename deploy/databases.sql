-- The registry has the database `lever`; MLflow owns the schema of its own one.
CREATE DATABASE mlflow;
