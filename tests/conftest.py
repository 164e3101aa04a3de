"""Makes the fixtures of tests/servers.py known to every test."""

pytest_plugins = ["tests.servers"]
