"""Who is working on what: sessions, leases, messages and the situation report."""
