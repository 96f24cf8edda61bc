"""Turn part of a model into a separate model: a partition, the operators between tensors, or everything used.

    request -> selection      -> excerpt           -> contents               -> bytes
               (cut or plan)     (with names and      (with new indices for     (by `Writer`)
                                  metadata)            everything it needs)

`whole` reads a model into values and writes the bytes; the other modules here handle only graphs and values.
"""
