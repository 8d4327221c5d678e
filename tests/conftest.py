pytest_plugins = ["tests.fakes.mlflow_store", "tests.fakes.phones"]
