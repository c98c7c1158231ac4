"""ONNX Runtime as an engine for parts of programs: the graph of a delegated body is written as a model of
ONNX's, which onnxruntime runs. What this file does not translate is left to hop. Needs onnx, onnxruntime and
NumPy (pip install onnx onnxruntime numpy)."""

import hop
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

DTYPES = {
    "bool": TensorProto.BOOL, "i32": TensorProto.INT32, "i64": TensorProto.INT64, "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
}  # fmt: skip
NUMPY = {"bool": np.bool_, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}
# Operators that have one of ONNX's of the same meaning.
PLAIN = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round",
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tanh": "Tanh",
    "sigmoid": "Sigmoid", "erf": "Erf", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow",
    "max": "Max", "min": "Min", "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "select": "Where", "matmul": "MatMul", "stop_gradient": "Identity",
    "tag": "Identity", "not": "Not", "and": "And", "or": "Or",
}  # fmt: skip
OF_BOOLS = ("not", "and", "or")
REDUCED = {"sum": "ReduceSum", "prod": "ReduceProd", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
CALLS = ("invoke_subgraph", "region")  # their one body on their operands


class NotTranslated(Exception):
    """There is something in the body that ONNX has no word for here."""


def type_of(text):
    """(dtype, sizes): the sizes must be numbers, for a model is made for them."""
    dtype, _, dims = text.rstrip("]").partition("[")
    sizes = [d.strip() for d in dims.split(",") if d.strip()]
    if dtype not in DTYPES or not all(d.isdigit() for d in sizes):
        raise NotTranslated(text)
    return dtype, [int(d) for d in sizes]


class Model:
    """A model that grows: nodes, and arrays that are part of it."""

    def __init__(self):
        self.nodes, self.held, self._n = [], [], 0

    def name(self):
        self._n += 1
        return f"v{self._n}"

    def array(self, x):
        name = self.name()
        self.held.append(numpy_helper.from_array(np.ascontiguousarray(x), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def sizes(self, numbers):
        return self.array(np.asarray(numbers, np.int64))

    # -- translation --

    def graph(self, graph, inputs):
        """The names of the results of a graph, for inputs of these names."""
        values, types = list(inputs), [p["type"] for p in graph["params"]]
        for node in graph["nodes"]:
            if node["op"] in CALLS:
                body = node["bodies"][0]
                values += self.graph(body["function"], [values[i] for i in body["operands"]])
            else:
                given = [values[i] for i in node["operands"]]
                values.append(self.translated(node, given, [types[i] for i in node["operands"]]))
            types += node["types"]
        return [values[i] for i in graph["results"]]

    def translated(self, node, given, types):
        op, a = node["op"], node["attributes"]
        dtype, dims = type_of(node["types"][0])
        if op in PLAIN:
            operand = type_of(types[0])[0]
            if (a and op != "tag") or (op in OF_BOOLS) != (operand == "bool") and op not in ("select", "eq"):
                raise NotTranslated(op)
            if op in ("div", "pow") and dtype[0] != "f":  # which integers do in another way
                raise NotTranslated(op)
            return self.node(PLAIN[op], *given)
        if op in REDUCED and "dtype" not in a and dtype[0] == "f":
            axes = a.get("dims", list(range(len(type_of(types[0])[1]))))
            if not axes:
                return self.node("Identity", *given)
            return self.node(REDUCED[op], given[0], self.sizes(axes), keepdims=0)
        if op == "broadcast":
            shape = [1] * len(dims)
            for axis, to in enumerate(a["at"]):
                shape[to] = type_of(types[0])[1][axis]
            return self.node("Expand", self.node("Reshape", given[0], self.sizes(shape)), self.sizes(dims))
        if op == "reshape":
            return self.node("Reshape", given[0], self.sizes(dims), allowzero=1)
        if op == "permute":
            return self.node("Transpose", given[0], perm=a["order"])
        if op == "concat":
            return self.node("Concat", *given, axis=a["dim"])
        if op == "cast":
            return self.node("Cast", given[0], to=DTYPES[dtype])
        if op == "slice":
            axes = list(range(len(dims)))
            steps = a.get("step") or [1] * len(dims)
            return self.node("Slice", given[0], *map(self.sizes, (a["start"], a["limit"], axes, steps)))
        if op == "full":
            value = float(a["value"]) if dtype[0] == "f" else a["value"]
            return self.array(np.full(dims, value, NUMPY[dtype]))
        if op == "constant":
            (held,) = [v for v in a.values() if isinstance(v, dict)]
            return self.array(np.frombuffer(bytes.fromhex(held["hex"]), NUMPY[dtype]).reshape(dims))
        if op == "dot" and "dtype" not in a:
            return self.dot(a, given, [len(type_of(t)[1]) for t in types])
        raise NotTranslated(op)

    def dot(self, a, given, ranks):
        """Sums of products, as Einsum says them: a letter for each axis."""
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        left, right = [[next(letters) for _ in range(rank)] for rank in ranks]
        for i, k in zip(a["batch_lhs"] + a["contract_lhs"], a["batch_rhs"] + a["contract_rhs"]):
            right[k] = left[i]
        out = [left[i] for i in a["batch_lhs"]]
        out += [c for c in left if c not in right] + [c for c in right if c not in left]
        equation = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
        return self.node("Einsum", *given, equation=equation)


def model_of(graph, params, results):
    """The bytes of a model that computes the graph."""
    made, inputs, outputs = Model(), [], []
    for i, text in enumerate(params):
        dtype, dims = type_of(text)
        inputs.append(helper.make_tensor_value_info(f"x{i}", DTYPES[dtype], dims))
    given = made.graph(graph, [f"x{i}" for i in range(len(params))])
    for k, (name, text) in enumerate(zip(given, results)):
        dtype, dims = type_of(text)
        made.nodes.append(helper.make_node("Identity", [name], [f"y{k}"]))  # it may be an input
        outputs.append(helper.make_tensor_value_info(f"y{k}", DTYPES[dtype], dims))
    whole = helper.make_graph(made.nodes, graph["name"] or "part", inputs, outputs, made.held)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


class OnnxEngine:
    """Runs a body with ONNX Runtime. taken, left: names of bodies, and why one was left to hop."""

    name, version = "onnx", onnxruntime.__version__

    def __init__(self):
        self.taken, self.left = [], []

    def compile(self, text, params, results, function):
        try:
            model = model_of(function.json(), params, results)
        except NotTranslated as why:
            self.left.append((function.name, str(why)))
            return None
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.taken.append(function.name)
        names = [f"x{i}" for i in range(len(params))]
        used = {i.name for i in session.get_inputs()}

        def run(*arrays):
            return session.run(None, {n: x for n, x in zip(names, arrays) if n in used})

        return run


def block(x, w, b):
    h = hop.tanh(x @ w + b)
    return hop.where(h > 0, h, 0.1 * h)


def main():
    engine = OnnxEngine()
    by_onnx = hop.delegate(block, engine, check=True)

    def loss(f):
        return lambda p, x: hop.mean(f(f(x, p["w"], p["b"]), p["w"], p["b"]) ** 2)

    key = hop.random.key(1)
    p = {"w": 0.3 * hop.random.normal(key, (16, 16)), "b": hop.ones(16)}
    x = hop.random.normal(key, (32, 16))
    value, gradient = hop.jit(hop.value_and_grad(loss(by_onnx)))(p, x)
    expected, wanted = hop.jit(hop.value_and_grad(loss(block)))(p, x)
    far = max(float(hop.max(hop.abs(gradient[k] - wanted[k]))) for k in p)
    print(f"loss {float(value):.6f}, by hop {float(expected):.6f}; gradients differ by {far:.1e} at most")
    print(f"ONNX Runtime ran {engine.taken}; left to hop: {engine.left}")
    assert abs(value - expected) < 1e-5 and far < 1e-5 and engine.taken


if __name__ == "__main__":
    main()
