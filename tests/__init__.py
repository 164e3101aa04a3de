"""The tests of throttle; `tests/servers.py` has the servers they run against."""
