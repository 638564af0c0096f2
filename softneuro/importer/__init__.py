"""ONNX models to graphs: the only package that imports onnx (ops/onnx_op.py does so when such a layer runs)."""
