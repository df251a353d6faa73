"""Training of many small models as one computation, for rows with `batched_seeds`."""
