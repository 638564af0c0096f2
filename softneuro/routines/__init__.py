"""How layers are computed: one algorithm a file, and the one table that lists them."""
