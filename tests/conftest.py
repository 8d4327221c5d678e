import os
import signal

from hypothesis import settings

# As the agent itself does on a busy machine: threads that spin at barriers make ggml crawl when tests share the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

# A shell without job control has what it starts in the background ignore Ctrl-C, and so would what tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure: examples have no deadline of their own.
settings.register_profile("lever", deadline=None)
settings.load_profile("lever")

pytest_plugins = [
    "tests.fakes.agents",
    "tests.fakes.arm64",
    "tests.fakes.mlflow_store",
    "tests.fakes.phones",
    "tests.fakes.adb",
    "tests.fakes.postgres",
    "tests.fakes.real_models",
]
