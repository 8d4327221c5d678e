"""What a run costs: energy, memory, clocks."""
