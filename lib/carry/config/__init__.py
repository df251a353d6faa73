"""Settings, params.yaml, paths, YAML and templates."""
