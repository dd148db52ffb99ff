"""What is left after the service, its database or its machine failed under load: `python -m tests.faults`."""
