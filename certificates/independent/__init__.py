"""A checker of certificates that shares no code with what it checks; it needs numpy alone."""
