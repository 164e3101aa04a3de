"""Tests of parts working together on real servers."""
