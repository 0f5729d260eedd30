"""What drives models: engines, response store, prompts, stages, report and command line."""
