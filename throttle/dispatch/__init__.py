"""Claim, pull, forward: the road from the frontier to the crawl queue."""
