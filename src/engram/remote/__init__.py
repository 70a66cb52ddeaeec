"""A store behind a server. Nothing is imported here: a hook needs only a small part of this package."""
