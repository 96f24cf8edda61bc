"""An extension for Model Explorer: `model-explorer model.circle --extensions=circletools.modelexplorer`.

Model Explorer (the package ai-edge-model-explorer) imports `main` and offers its node data for each graph.
"""
