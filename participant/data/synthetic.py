"""Generate images or signals whose sites differ by a given label shift and feature shift.

For tests and first steps: needs no files and no download, and a small network learns them within a few epochs. Nothing
resembles any patient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import IndexArray
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing
from fedap_core.randomness import generator
from participant.data.base import DataOptions, Dataset, InputArray

_KNOWN = ("samples", "classes", "sites", "label_shift", "feature_shift", "noise", "seed", "shape")
_WAVES = 4
"""Plane waves per pattern: enough to make the patterns of 20 classes differ, few enough for a 5-wide kernel to see."""

_AT_ONCE = 1 << 14
"""Values generated at a time: their memory is reused and stays in a cache. The number does not change the values."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    samples: int
    classes: int
    sites: int
    label_shift: float
    feature_shift: float
    noise: float
    seed: int
    shape: tuple[int, ...]


def load(options: DataOptions) -> Dataset:
    """Generate sites of equal size. label_shift 0: every site has all classes equally; 1: only its favourite classes.
    feature_shift 0: all sites measure alike; 1: gain, offset and background differ strongly between sites.

    Options: samples, classes, sites, label_shift, feature_shift, noise, seed, shape (CxHxW images, CxT signals).
    """
    options.require_known("synthetic", _KNOWN)
    plan = _Plan(
        samples=options.integer("samples", 2000, minimum=1),
        classes=options.integer("classes", 5, minimum=2, maximum=1000),
        sites=options.integer("sites", 4, minimum=1),
        label_shift=options.number("label_shift", 0.5, minimum=0.0, maximum=1.0),
        feature_shift=options.number("feature_shift", 0.5, minimum=0.0, maximum=1.0),
        noise=options.number("noise", 0.3, minimum=0.0, maximum=10.0),
        seed=options.integer("seed", 0, minimum=0),
        shape=options.shape("shape", (1, 16, 16), dims=(2, 3)),
    )
    site = np.sort(np.arange(plan.samples, dtype=np.int64) % plan.sites)
    y = _labels(plan, site)
    x = _inputs(plan, site, y)
    is_image = len(plan.shape) == 3
    return Dataset(
        name="synthetic",
        x=x,
        y=y,
        classes=tuple(f"class {number}" for number in range(plan.classes)),
        group=np.arange(plan.samples, dtype=np.int64),
        preprocessing=IMAGE_8BIT if is_image else Preprocessing(steps=("synthetic signal",)),
        site=site,
        site_names=tuple(f"site-{number}" for number in range(plan.sites)),
    )


def _labels(plan: _Plan, site: IndexArray) -> IndexArray:
    """Site s draws from (1 - shift) * uniform + shift * its favourites: every class number that is s modulo sites,
    or class s modulo classes when there are more sites than classes."""
    rng = generator(plan.seed, purpose="synthetic labels")
    numbers = np.arange(plan.classes)
    y = np.empty(plan.samples, dtype=np.int64)
    for number in range(plan.sites):
        favourite = numbers % plan.sites == number if plan.classes >= plan.sites else numbers == number % plan.classes
        share = (1.0 - plan.label_shift) / plan.classes + plan.label_shift * favourite / favourite.sum()
        members = site == number
        y[members] = rng.choice(plan.classes, size=int(members.sum()), p=share / share.sum())
    return y


def _inputs(plan: _Plan, site: IndexArray, y: IndexArray) -> InputArray:
    """The class pattern plus noise, seen through the site's instrument; images are stored as 0..255 for -1..1."""
    rng = generator(plan.seed, purpose="synthetic patterns")
    patterns = 0.5 * _smooth_patterns(plan.classes, plan.shape, rng)
    backgrounds = 0.3 * plan.feature_shift * _smooth_patterns(plan.sites, plan.shape, rng)
    tail = (1,) * len(plan.shape)
    gains = np.exp(plan.feature_shift * rng.uniform(-0.7, 0.7, plan.sites)).reshape(-1, *tail)
    offsets = (plan.feature_shift * rng.uniform(-0.4, 0.4, plan.sites)).reshape(-1, *tail)
    rng = generator(plan.seed, purpose="synthetic noise")
    is_image = len(plan.shape) == 3
    whole = (plan.samples, *plan.shape)
    x: InputArray = np.empty(whole, dtype=np.uint8) if is_image else np.empty(whole, dtype=np.float32)
    rows = max(1, _AT_ONCE // patterns[0].size)
    for start in range(0, plan.samples, rows):
        here, label = site[start : start + rows], y[start : start + rows]
        noise = rng.standard_normal((len(here), *plan.shape))
        values = gains[here] * (patterns[label] + plan.noise * noise) + offsets[here] + backgrounds[here]
        x[start : start + rows] = np.clip(np.rint((values + 1.0) * 127.5), 0, 255) if is_image else values
    return x


def _smooth_patterns(count: int, shape: tuple[int, ...], rng: np.random.Generator) -> _Floats:
    """(count, *shape) sums of low-frequency waves with unit root mean square."""
    axes = np.meshgrid(*(np.linspace(0.0, 2.0 * np.pi, size, endpoint=False) for size in shape[1:]), indexing="ij")
    patterns = np.zeros((count, *shape))
    for which, channel in np.ndindex(count, shape[0]):
        for _ in range(_WAVES):
            phase = rng.uniform(0.0, 2.0 * np.pi)
            angle = sum((axis * int(rng.integers(-3, 4)) for axis in axes), np.full(shape[1:], phase))
            patterns[which, channel] += np.cos(angle)
    rms: _Floats = np.sqrt(np.mean(patterns**2, axis=tuple(range(1, patterns.ndim)), keepdims=True))
    scaled: _Floats = patterns / np.maximum(rms, 1e-6)
    return scaled
