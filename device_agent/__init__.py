"""The part of Lever Farm that runs on a phone: engine, models, telemetry, and the virtual phone."""
