"""A store behind a server: the facade of `Engram` over HTTP.

`calls` is the table of what can be called, with the scope that each call needs. `client` makes the facade from it,
`performing` carries a call out on the server. `wire` says how values are sent, `transport` sends them, and `once` sends
the one request of a hook, which may not spend time on imports.

A call is one request. What only the caller's machine knows is worked out there: its project, the resources that paths
stand for, and which processes run. Secrets are removed there, too.
"""
