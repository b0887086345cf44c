"""Spark sessions and processes: settings, storage, workers, errors of tasks."""
