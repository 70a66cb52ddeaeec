"""The recall socket: a process without a model asks one that has it loaded.

A hook may not load a model, and `engram recall` would spend most of its time on it. A running `engram mcp` of the same
user and store has the model. It listens on a Unix socket and answers `recall`, nothing else. The client has a deadline.
Without an answer it goes on by itself: a hook by words, the command line with a model of its own.

There is no token. The socket is in a folder that only its owner can enter, and each side asks the kernel for the
other's user id before it sends a byte (`peer`). A process of the same user could read the store itself.

`place` says where the socket is, `protocol` what is sent, `client` asks, `server` listens, `answering` recalls.
A hook imports `client`, which must stay light.
"""
