"""The frontier in Redis: URLs, grants and the clocks of the hosts."""
