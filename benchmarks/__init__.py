"""`make bench`: lever against well-tuned baselines on this machine, one interleaved run that can be interrupted.

Every measurement is a job of the agent, run as a process of its own and kept under `results/` by what it depends on.
"""
