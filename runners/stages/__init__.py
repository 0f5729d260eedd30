"""The stages of the benchmark: records to requests, outcomes to records."""
