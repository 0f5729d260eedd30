"""Runs prompts on models: one small interface, one module per engine."""
