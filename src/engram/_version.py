"""The version, where even `engram --version` can read it without importing anything else."""

VERSION = "0.1.0"
