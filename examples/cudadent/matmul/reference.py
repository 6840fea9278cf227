"""What is right: the product in double."""

import numpy as np


def reference(tensors, params):
    with np.errstate(invalid="ignore", over="ignore"):
        product = tensors["A"].astype(np.float64) @ tensors["B"].astype(np.float64)
        return {"C": product.astype(np.float32)}
