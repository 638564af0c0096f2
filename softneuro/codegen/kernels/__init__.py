"""Kernel factories, one algorithm a file: imported only when the object cache misses."""
