import os

# As the agent itself does: threads that spin at barriers make ggml crawl when tests share the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

pytest_plugins = ["tests.fakes.mlflow_store", "tests.fakes.phones", "tests.fakes.real_models"]
