"""Make a model of a part of a model: partitions, the operators between tensors, or everything that is used.

    request -> selection -> excerpt -> contents -> bytes
               (cut, plan,  (+ names,  (new indices (writer)
                needed)     metadata)  of all it needs)

`source` reads a model into values and `writer` makes the bytes; the modules between handle only graphs and values.
"""
