"""The two file formats: circle.json and tflite.json, and the script that derives them."""
