"""Makes the fixtures of servers.py, processes.py and crew.py known to every test."""

pytest_plugins = ["tests.servers", "tests.processes", "tests.crew"]
