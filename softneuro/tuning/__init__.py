"""Measuring candidates and choosing among them exactly."""
