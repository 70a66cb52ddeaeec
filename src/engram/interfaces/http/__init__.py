"""The HTTP server: `engram serve`.

How a request goes, from the outside in:

1. `recording` gives it an id. At its end it is counted and gets a line in the log. An unexpected failure ends here.
2. `origins` refuses a request that is not for this server, or that a page of another site sends. It also adds the
   headers that every answer has.
3. `guard` refuses a request without the secret of a token (401), whatever its path, before anything else looks at it.
   `guard.OPEN` lists the paths that need none. The caller is in the scope now (`guard.caller_of`), not yet verified.
4. `routes` answers the operations: one lookup by path, and one job in a thread. The job verifies the token, checks
   what it may do, reads the arguments, performs the operation and makes the bytes of the answer (`calls`).
5. Everything else goes to the routes of the FastAPI application: `app.build` lists what is added there. `mcp` is the
   MCP server, `oauth` (with `oauth_store` and `consent`) lets in its clients, `browser` (with `pages`) logs persons in.

The guard lets no byte of an answer out before the token is verified. So an answer that is made without the store (a
path that does not exist, a body that is too large) is replaced by 401 too if the token is wrong.

`service.Service` holds what all requests share: the store, the threads, the counters, the change feed. `answers` has
the one shape of answers and errors. `serving` runs it all under uvicorn.
"""
