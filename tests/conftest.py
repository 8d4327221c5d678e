pytest_plugins = ["tests.fakes.phones"]
