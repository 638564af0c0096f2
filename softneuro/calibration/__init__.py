"""Which numbers tensors hold, found by running samples: how each may be kept in 8 bits."""
