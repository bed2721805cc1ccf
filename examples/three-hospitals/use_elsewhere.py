"""Open north's exported models with onnxruntime and MONAI, and compare their results with `predict`."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import onnxruntime
from monai.bundle import ConfigParser
from PIL import Image

files = sorted(Path("north-new").glob("*.png"))
with Path("north.csv").open(newline="") as table:
    rows = {row["sample"]: row for row in csv.DictReader(table)}
classes = ("abscess", "benign", "cyst")
expected = np.array([[float(rows[file.name][name]) for name in classes] for file in files])

# ONNX: pixels as stored (0 to 255), at the model's input size
pixels = [Image.open(file).convert("L").resize((32, 32), Image.Resampling.BILINEAR) for file in files]
images = np.stack([np.asarray(one, dtype=np.float32)[None] for one in pixels])
session = onnxruntime.InferenceSession("north.onnx", providers=["CPUExecutionProvider"])
by_onnx = session.run(["probabilities"], {"input": images})[0]
print(f"onnxruntime: {len(files)} images, largest difference from predict {np.abs(by_onnx - expected).max():.1e}")

# MONAI: the bundle's own transforms, from a file to probabilities
bundle = ConfigParser()
bundle.read_config("north-bundle/configs/inference.json")
bundle["bundle_root"] = "north-bundle"
predict = bundle.get_parsed_content("predict")
by_monai = np.stack([predict(str(file)).detach().numpy() for file in files])
print(f"MONAI: {len(files)} images, largest difference from predict {np.abs(by_monai - expected).max():.1e}")
if max(np.abs(by_onnx - expected).max(), np.abs(by_monai - expected).max()) > 1e-5:
    raise SystemExit("the exported models differ from predict")
