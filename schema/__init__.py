"""What the two file formats look like: circle.json and tflite.json, and the script that derives them."""
