"""Tests of one file each, mirroring the package."""
