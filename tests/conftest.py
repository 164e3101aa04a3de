"""Makes the fixtures of tests/servers.py and tests/processes.py known to every test."""

pytest_plugins = ["tests.servers", "tests.processes"]
