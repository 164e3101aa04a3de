"""Tests under random faults: kills, pauses, restarts."""
