"""The interfaces to Engram: command line, hooks, MCP server, and the installer for harnesses."""
