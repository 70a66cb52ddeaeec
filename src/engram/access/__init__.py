"""Who may use a server: tokens, logins, OAuth clients, limits. Store-wide, not part of a workspace."""
