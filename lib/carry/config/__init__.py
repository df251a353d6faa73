"""Settings, rows, profiles and paths."""
