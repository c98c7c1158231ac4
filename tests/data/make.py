#!/usr/bin/env python3
"""Writes the golden files beside it. Needs numpy, safetensors and ml_dtypes; see README.md."""
import os
import zipfile

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

here = os.path.dirname(os.path.abspath(__file__))
path = lambda name: os.path.join(here, name)

# Element i, in row-major order, is i - 2.5 for floats, i - 2 for signed and i for unsigned integers, i % 3 ==
# 0 for bools.
def array(dtype, *shape):
    i = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    kind = np.dtype(dtype).kind
    if kind == "b":
        i = i % 3 == 0
    elif kind == "i":
        i = i - 2
    elif kind != "u":
        i = i - 2.5
    return np.asarray(i).astype(dtype)

np.save(path("f4.npy"), array("<f4", 2, 3))
np.save(path("f8_scalar.npy"), array("<f8"))
np.save(path("b1.npy"), array("?", 7))
np.save(path("i8_empty.npy"), array("<i8", 0, 4))
np.save(path("i4_big_endian.npy"), array(">i4", 2, 3))
np.save(path("f8_fortran.npy"), np.asfortranarray(array("<f8", 2, 3, 2)))
np.save(path("f4_big_fortran.npy"), np.asfortranarray(array(">f4", 3, 4)))
np.save(path("c8.npy"), array("<c8", 2))
np.save(path("bf16.npy"), array(ml_dtypes.bfloat16, 3))
with open(path("u4_version2.npy"), "wb") as f:
    np.lib.format.write_array(f, array("<u4", 5), version=(2, 0))

np.savez(path("plain.npz"), a=array("<f4", 2, 3), b=array("<i8", 4), **{"naïve": array("?", 3)})
np.savez_compressed(
    path("deflated.npz"),
    a=array("<f4", 20, 30),
    b=np.asfortranarray(array(">f8", 2, 3)),
    c=array("<i4"),
)
# sizes after the data, a member that is no array
with zipfile.ZipFile(path("streamed.npz"), "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("notes.txt", "no array")
    with z.open("x.npy", "w") as f:
        np.lib.format.write_array(f, array("<i4", 3))

save_file(
    {
        "w": array("<f4", 2, 3),
        "i": array("<i8", 2),
        "flags": array("?", 3),
        "empty": array("<f8", 0, 2),
        "scalar": array("<f8"),
        'quo"te\n': array("<i4", 1),
    },
    path("several.safetensors"),
    metadata={"format": "np", "made by": "make.py"},
)
save_file(
    {"half": array("<f2", 3), "brain": array(ml_dtypes.bfloat16, 3), "w": array("<f4", 2)},
    path("small_floats.safetensors"),
)
