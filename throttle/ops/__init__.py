"""Watching the service: audit, health checks."""
