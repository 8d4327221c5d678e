"""What host and phone must agree on."""

PROTOCOL_VERSION = 1
ENGINE_VERSION = "0.3.5"  # part of every trial's identity: raise it when outputs or timings may change
