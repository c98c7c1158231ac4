"""NumPy as an engine for parts of programs: hop hands the body of a delegated function over as a graph, and
this file walks it with NumPy's functions. What it does not know, loops for example, it leaves to hop. Copy it
to begin an engine of your own: the same walk writes another compiler's program (onnx_engine.py)."""

import hop
import numpy as np

UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "exp2": np.exp2,
    "log2": np.log2, "sqrt": np.sqrt, "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "not": np.invert,
    "stop_gradient": np.asarray, "tag": np.asarray,
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "sigmoid": lambda x: (1 / (1 + np.exp(-x))).astype(x.dtype),
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "max": np.maximum, "min": np.minimum, "atan2": np.arctan2, "hypot": np.hypot, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "matmul": np.matmul,
}  # fmt: skip
DTYPES = {"bool": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64}
DTYPES |= {f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "iu" for bits in (8, 16, 32, 64)}
CALLS = ("invoke_subgraph", "region")  # their one body on their operands


def reduced(function):
    def reduce(node, sizes, x):
        axes, dtype = node["attributes"].get("dims"), node["attributes"].get("dtype")
        x = x.astype(DTYPES[dtype]) if dtype else x
        return np.asarray(function(x, axis=None if axes is None else tuple(axes))).astype(x.dtype)

    return reduce


def broadcast(node, sizes, x):
    dims, at = sizes(node["attributes"]["dims"]), node["attributes"]["at"]
    shape = [1] * len(dims)
    for axis, to in enumerate(at):
        shape[to] = x.shape[axis]
    return np.broadcast_to(x.reshape(shape), dims)


def dot(node, sizes, x, y):
    """Sums of products: a letter for each axis, the same one for those that go together."""
    a, letters = node["attributes"], iter("abcdefghijklmnopqrstuvwxyz")
    if "dtype" in a:
        x, y = x.astype(DTYPES[a["dtype"]]), y.astype(DTYPES[a["dtype"]])
    left, right = [next(letters) for _ in range(x.ndim)], [next(letters) for _ in range(y.ndim)]
    for i, k in zip(a["batch_lhs"] + a["contract_lhs"], a["batch_rhs"] + a["contract_rhs"]):
        right[k] = left[i]
    batch = [left[i] for i in a["batch_lhs"]]
    out = batch + [c for c in left if c not in right] + [c for c in right if c not in left]
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


def cut(node, sizes, x):
    a = node["attributes"]
    steps = a.get("step") or [1] * x.ndim
    return x[tuple(map(slice, sizes(a["start"]), sizes(a["limit"]), steps))]


def full(node, sizes):
    a = node["attributes"]
    value = float(a["value"]) if a["dtype"][0] == "f" else a["value"]
    return np.full(sizes(a["dims"]), value, DTYPES[a["dtype"]])


def constant(node, sizes):
    (held,) = [v for v in node["attributes"].values() if isinstance(v, dict)]
    dtype, _, dims = held["type"].rstrip("]").partition("[")
    shape = [int(d) for d in dims.split(",") if d.strip()]
    return np.frombuffer(bytes.fromhex(held["hex"]), DTYPES[dtype]).reshape(shape)


SHAPED = {
    "sum": reduced(np.sum), "prod": reduced(np.prod), "reduce_max": reduced(np.max),
    "reduce_min": reduced(np.min), "any": reduced(np.any), "all": reduced(np.all),
    "broadcast": broadcast, "slice": cut, "dot": dot, "full": full, "constant": constant,
    "reshape": lambda node, sizes, x: x.reshape(sizes(node["attributes"]["dims"])),
    "permute": lambda node, sizes, x: x.transpose(node["attributes"]["order"]),
    "concat": lambda node, sizes, *xs: np.concatenate(xs, node["attributes"]["dim"]),
    "cast": lambda node, sizes, x: x.astype(DTYPES[node["attributes"]["dtype"]]),
    "select": lambda node, sizes, p, x, y: np.where(p, x, y),
}  # fmt: skip


def type_of(text):
    dtype, _, dims = text.rstrip("]").partition("[")
    return dtype, [d.strip() for d in dims.split(",") if d.strip()]


def is_known(graph):
    """Does this engine know every operator, dtype and size of the graph?"""
    types = [p["type"] for p in graph["params"]]
    for node in graph["nodes"]:
        types += node["types"]
        if node["op"] in CALLS:
            if not is_known(node["bodies"][0]["function"]):
                return False
        elif node["op"] in UNARY or node["op"] in BINARY:  # integers divide in another way
            plain = not node["attributes"] or node["op"] == "tag"
            if not plain or node["op"] in ("div", "pow") and node["types"][0][0] != "f":
                return False
        elif node["op"] not in SHAPED:
            return False
    return all(dtype in DTYPES and all(d.isalnum() for d in dims) for dtype, dims in map(type_of, types))


def run(graph, arrays):
    """The results of a graph, for these arguments."""
    values, known = list(arrays), {}
    for p, x in zip(graph["params"], arrays):
        known.update(zip(type_of(p["type"])[1], x.shape))

    def sizes(dims):
        return [d if isinstance(d, int) else known[d] for d in dims]

    for node in graph["nodes"]:
        op, given = node["op"], [values[i] for i in node["operands"]]
        if op in CALLS:
            body = node["bodies"][0]
            out = run(body["function"], [values[i] for i in body["operands"]])
        elif op in UNARY:
            out = [UNARY[op](*given)]
        elif op in BINARY:
            out = [BINARY[op](*given)]
        else:
            out = [SHAPED[op](node, sizes, *given)]
        values += out
    return [values[i] for i in graph["results"]]


class NumpyEngine:
    """Runs a body with NumPy. seen: the operators of bodies it was asked for, and whether it took them."""

    name, version = "numpy", 1

    def __init__(self):
        self.seen = []

    def compile(self, text, params, results, function):
        graph = function.json()
        taken = is_known(graph)
        self.seen.append(([node["op"] for node in graph["nodes"]], taken))
        return (lambda *arrays: tuple(run(graph, arrays))) if taken else None


def layer(x, w, b):
    return hop.tanh(x @ w + b)


def loss(p, x, y):
    h = layer_by_numpy(x, p["w1"], p["b1"])
    return hop.mean((layer_by_numpy(h, p["w2"], p["b2"])[:, 0] - y) ** 2)


engine = NumpyEngine()
layer_by_numpy = hop.delegate(layer, engine, check=True)


def main():
    key = hop.random.key(5)
    x = hop.random.normal(key, (64, 2))
    y = hop.tanh(x[:, 0] - x[:, 1])
    k1, k2 = hop.random.split(key)
    p = {
        "w1": hop.random.normal(k1, (2, 16)), "b1": hop.zeros(16),
        "w2": 0.3 * hop.random.normal(k2, (16, 1)), "b2": hop.zeros(1),
    }  # fmt: skip
    step = hop.jit(hop.value_and_grad(loss))
    first = None
    for _ in range(200):
        value, gradient = step(p, x, y)
        first = value if first is None else first
        p = hop.tree.map(lambda v, g: v - 0.1 * g, p, gradient)
    taken = sum(took for _, took in engine.seen)
    print(f"loss {float(first):.3f} at first, {float(value):.4f} after 200 steps")
    print(f"NumPy ran {taken} of {len(engine.seen)} parts, gradients among them")
    assert value < 0.1 * first and taken == len(engine.seen) > 2


if __name__ == "__main__":
    main()
