"""`python -m orchestrator` is `lever`."""

from orchestrator.cli.main import main

main()
