from softneuro.codegen.memory import load_i64
from softneuro.codegen.vector import vectors
def make(target, k=2):
    v = vectors(target)
    load_n, store_n, load, store, splat, mul, lanes, vsum, maximum, floor = v.load_n, v.store_n, v.load, v.store, v.splat, v.mul, v.lanes, v.sum, v.maximum, v.floor
    def kernel(args, tid, n):
        x = load_i64(args, 0); y = load_i64(args, 1); size = load_i64(args, 2)
        f = splat(k * 1.0)
        acc = splat(0.0)
        for i in range(0, size - lanes + 1, lanes):
            t = mul(load(x + i*4), f)
            acc = maximum(acc, floor(t))
            store(y + i*4, t)
        r = size % lanes
        if r:
            i = size - r
            store_n(y + i*4, maximum(acc, mul(load_n(x + i*4, r), splat(vsum(f)))), r)
    return kernel
