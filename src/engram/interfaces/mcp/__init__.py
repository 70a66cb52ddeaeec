"""The MCP server: Engram for any agent whose harness speaks the Model Context Protocol.

- `tools`: which operations are offered under which tool, and their definitions as they go over the wire
- `guide`: what an agent is told: the server's instructions, its resources and prompts
- `host`: runs the calls; everything here is synchronous and knows no protocol
- `connections`: what is known about each client
- `answers`: results as an agent should read them
- `server`: all of that on the official SDK, for whichever transport
- `early`: answers to what every client asks first, while the SDK is still being imported
- `lines`, `stdio`: all of that on standard input and output

Only `server` and `lines` import the SDK, which takes most of a second.
"""
