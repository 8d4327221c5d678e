"""The virtual phone: a process that speaks the ADB device protocol."""
