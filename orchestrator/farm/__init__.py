"""Phones: registration, provisioning, health, and the agent client."""
