"""The `evaluate` modules, one folder each; load them with ``evaluate.load``, not with ``import``."""
