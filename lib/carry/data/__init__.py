"""Problems, problem sets, data sets by length, and training batches."""
