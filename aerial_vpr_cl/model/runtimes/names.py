"""What runtimes are called. Without PyTorch, which verbs that only pass them on need not load."""

AUTO, EAGER, COMPILED, ONNX, INT8 = "auto", "eager", "compiled", "onnx", "int8"
RUNTIMES = (AUTO, EAGER, COMPILED, ONNX, INT8)
RUNTIME_HELP = (
    f"what computes the network: {AUTO} takes the fastest that `aerial-vpr export` has made for this generation, "
    f"else {EAGER} (PyTorch); {COMPILED} needs a C++ compiler and minutes at every start"
)
