"""A run becomes weights and a learning curve."""
