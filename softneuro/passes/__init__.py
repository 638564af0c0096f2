"""Rewrites of graphs: every pass is a function from Graph to Graph, `pipeline.PIPELINE` is their order."""
