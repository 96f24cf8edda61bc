"""A part of a model as a model: chosen by partitions, between tensors, or as all that is used.

    request -> selection -> excerpt -> contents -> bytes
               (cut, plan,  (+ names,  (new indices (writer)
                needed)     metadata)  of all it needs)

`source` reads a model into values and `writer` makes the bytes; what is between knows graphs and values only.
"""
