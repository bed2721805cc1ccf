"""Read DICOM files as 8-bit images: rescaled, windowed, MONOCHROME1 inverted, exactly as an exported png would show.

Decides how the values of a header are used. A patient ID becomes a keyed hash as soon as it is read, the key is
discarded once the files have been read, and groups are numbered in the order of files: no ID is kept, shown or sent.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput, require_known, unknown_name
from fedap_core.preprocessing import Preprocessing
from participant.data.base import DataOptions, Dataset, NewSamples
from participant.data.files import LABEL_OPTIONS, files_of, labels_of, names_in
from participant.data.images import as_pixels, image_preprocessing, wanted_channels
from participant.data.windowing import Window, to_8_bits

if TYPE_CHECKING:  # an optional extra: imported only when a file is opened
    from pydicom.dataset import Dataset as Header

KEYS = {
    "patient": "PatientID",
    "study": "StudyInstanceUID",
    "series": "SeriesInstanceUID",
    "instance": "SOPInstanceUID",
}
"""Keys that group files, or look up a row of the labels, and the DICOM attribute of each."""

OPTIONS = {
    "window": "center/width, as in 40/400: the same for all files; file: each file's own window, the default; full: "
    "all values that its bits can hold",
    "size": "width and height in pixels, to which all are resized; default: all have one size already",
    "channels": "1 (grey) or 3 (colour); default: 1 when all are grey",
    "group": "patient (default), study, series, instance: the unit that is never divided",
    "frames": "split: every frame of a multi-frame file is a sample; default: such files are refused",
    "match": "file (default), patient, study, series, instance: the column of labels to look up",
    **LABEL_OPTIONS,
}


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """One image, (C, H, W). keys: hashes of its patient, study, series and instance IDs."""

    pixels: NDArray[np.uint8]
    file: Path
    name: str
    keys: dict[str, str]


def load(path: Path, options: DataOptions) -> Dataset:
    """Load (n, C, H, W) uint8 in the order of files; options as in OPTIONS."""
    options.require_known(path.name, tuple(OPTIONS))
    match, group = _chosen(options, "match", "file"), _chosen(options, "group", "patient")
    hashing = _Hashing()
    frames = list(_frames(path, files_of(path, "dicom"), options, hashing))
    files = [frame.file for frame in frames]
    keys = None if match == "file" else [_key(frame, match, "match") for frame in frames]
    disguise = str if keys is None else hashing.of
    y, classes = labels_of(path, files, options, match=match, keys=keys, disguise=disguise)
    x, preprocessing = _stacked(frames, options)
    return Dataset(
        name=path.name,
        x=x,
        y=y,
        classes=classes,
        group=_numbered([_key(frame, group, "group") for frame in frames]),
        preprocessing=preprocessing,
    )


def load_new(path: Path, options: DataOptions) -> NewSamples:
    """Load all DICOM files below the folder, or the one file, by name; labels are ignored."""
    options.require_known(path.name, tuple(OPTIONS))
    frames = list(_frames(path, files_of(path, "dicom"), options, _Hashing()))
    x, preprocessing = _stacked(frames, options)
    return NewSamples(x=x, names=tuple(frame.name for frame in frames), preprocessing=preprocessing)


class _Hashing:
    """Keyed hashes under a random key that is never stored: nobody can test guessed IDs later."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(32)

    def of(self, text: str) -> str:
        return hashlib.blake2b(text.strip().encode(), key=self._salt, digest_size=16).hexdigest()


def _chosen(options: DataOptions, option: str, default: str) -> str:
    chosen = options.text(option, default)
    if chosen not in KEYS and chosen != default:
        raise unknown_name(f"data option {option!r}", chosen, {*KEYS, default})
    return chosen


def _key(frame: _Frame, kind: str, option: str) -> str:
    if kind not in frame.keys:
        fix = f"Or choose another one: {option}=study, series or instance."
        raise InvalidInput(frame.name, f"no {KEYS[kind]}", f"one in every file, for {option}={kind}", fix)
    return frame.keys[kind]


def _numbered(keys: Sequence[str]) -> IndexArray:
    """Number equal keys alike, in order of first appearance: the same in every process, whatever the hashes."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _stacked(frames: Sequence[_Frame], options: DataOptions) -> tuple[NDArray[np.uint8], Preprocessing]:
    """Stack frames to (n, C, H, W); grey images among colour ones are repeated in every channel."""
    channels = max(len(frame.pixels) for frame in frames)
    shape = frames[0].pixels.shape[1:]
    for frame in frames:
        if frame.pixels.shape[1:] != shape:
            got, first = (f"{size[1]}x{size[0]} pixels" for size in (frame.pixels.shape[1:], shape))
            fix = "Set the data option size=224 (or another) to resize all."
            raise InvalidInput(frame.name, got, f"{first} like {frames[0].name}", fix)
    x = np.stack([np.broadcast_to(frame.pixels, (channels, *shape)) for frame in frames])
    window, size = options.text("window", "file"), options.integer("size", 0, minimum=1) or None
    stated = () if window == "file" else (f"window {window}",)
    recipe = {"format": "dicom", "window": window}
    return x, image_preprocessing(*stated, size=size, channels=channels, recipe=recipe)


def _frames(base: Path, files: Sequence[Path], options: DataOptions, hashing: _Hashing) -> Iterator[_Frame]:
    """Yield every frame in its final size, so that whole files are not kept in memory."""
    from PIL import Image

    size, channels = options.integer("size", 0, minimum=1) or None, wanted_channels(options)
    window, multi = options.text("window", "file"), options.text("frames", "refuse")
    fixed = None if window in ("file", "full") else Window.parse(window, "file or full")
    require_known("data option 'frames'", multi, ("refuse", "split"))
    for file, name in zip(files, names_in(base, files), strict=True):
        header, pixels = _read(file)
        keys = {kind: hashing.of(str(header.get(tag))) for kind, tag in KEYS.items() if header.get(tag)}
        is_grey = int(header.SamplesPerPixel) == 1
        count = int(header.get("NumberOfFrames") or 1)
        if count > 1 and multi == "refuse":
            fix = "Use frames=split to make every frame a sample."
            raise InvalidInput(str(file), f"{count} frames", "one frame per file", fix)
        for number, frame in enumerate(pixels if count > 1 else [pixels]):
            values = _grey(file, header, frame, number, window=window, fixed=fixed) if is_grey else frame
            called = f"{name}#{number + 1}" if count > 1 else name
            image = as_pixels(Image.fromarray(values), size=size, channels=channels or (1 if is_grey else 3))
            yield _Frame(pixels=image, file=file, name=called, keys=keys)


def _read(file: Path) -> tuple[Header, NDArray[Any]]:
    """Return header and pixels of one file; any error is one line without patient data."""
    import pydicom
    from pydicom.errors import InvalidDicomError
    from pydicom.pixels.utils import pixel_array

    try:
        header = pydicom.dcmread(file)
    except (InvalidDicomError, OSError, ValueError, EOFError) as error:
        raise InvalidInput(str(file), f"unreadable ({type(error).__name__})", "a DICOM file") from error
    if "PixelData" not in header:
        fix = "Remove it from the folder."
        raise InvalidInput(str(file), "no pixels", "an image", fix)
    shown = str(header.get("PhotometricInterpretation"))
    if not shown.startswith(("MONOCHROME", "RGB", "YBR")):
        raise InvalidInput(str(file), f"PhotometricInterpretation {shown}", "MONOCHROME1, MONOCHROME2, RGB or YBR")
    try:
        pixels = pixel_array(header)
    except Exception as error:  # decoders may raise anything
        syntax = getattr(header.file_meta.get("TransferSyntaxUID"), "name", "unknown")
        fix = "Decompress it (dcmdjpeg, gdcmconv --raw), or pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg."
        raise InvalidInput(str(file), f"pixels stored as {syntax}", "pixels that can be decoded", fix) from error
    if int(header.SamplesPerPixel) == 3 and pixels.dtype != np.uint8:
        raise InvalidInput(str(file), f"colours of {header.BitsStored} bits", "8 bits per colour")
    return header, pixels


def _grey(
    file: Path, header: Header, stored: NDArray[Any], frame: int, *, window: str, fixed: Window | None
) -> NDArray[np.uint8]:
    """Return (H, W): modality LUT or rescale, then the window, then the polarity of the photometric interpretation."""
    from pydicom.pixels.processing import apply_modality_lut

    transform = _functional_group(header, frame, "PixelValueTransformationSequence")
    if transform is None:
        values = np.asarray(apply_modality_lut(stored, header), dtype=np.float64)
    else:
        values = stored.astype(np.float64) * float(transform.RescaleSlope) + float(transform.RescaleIntercept)
    if fixed is not None:
        shares = fixed.shares(values)
    elif window == "full":
        shares = _full_range(header, transform, values)
    else:
        shares = _own_window(file, header, frame, values)
    return to_8_bits(1.0 - shares if header.PhotometricInterpretation == "MONOCHROME1" else shares)


def _functional_group(header: Header, frame: int, name: str) -> Header | None:
    """Return a functional group of one frame of an enhanced multi-frame file: its own, or the one shared by all."""
    per_frame, shared = header.get("PerFrameFunctionalGroupsSequence"), header.get("SharedFunctionalGroupsSequence")
    groups = [per_frame[frame]] if per_frame else []
    groups += [shared[0]] if shared else []
    found: Header | None = next((group[name][0] for group in groups if name in group), None)
    return found


def _full_range(header: Header, transform: Header | None, values: NDArray[np.float64]) -> NDArray[np.float64]:
    bits = int(header.BitsStored)
    low, high = (0, 2**bits - 1) if header.PixelRepresentation == 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    source = header if transform is None else transform
    slope, intercept = float(source.get("RescaleSlope") or 1), float(source.get("RescaleIntercept") or 0)
    ends = sorted((low * slope + intercept, high * slope + intercept))
    return Window(center=sum(ends) / 2, width=ends[1] - ends[0]).shares(values)


def _own_window(file: Path, header: Header, frame: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply the file's VOI LUT, or the first of its windows with the function that it names (PS3.3 C.11.2)."""
    from pydicom.pixels.processing import apply_voi

    if header.get("VOILUTSequence"):
        bits = int(header.VOILUTSequence[0].LUTDescriptor[2])
        looked_up = apply_voi(np.rint(values).astype(np.int64), header)
        shares: NDArray[np.float64] = looked_up.astype(np.float64) / (2**bits - 1)
        return shares
    source: Any = _functional_group(header, frame, "FrameVOILUTSequence") or header
    if source.get("WindowCenter") is None or source.get("WindowWidth") is None:
        fix = "Use window=CENTER/WIDTH, or window=full."
        raise InvalidInput(str(file), "no window", "WindowCenter and WindowWidth in every file", fix)
    center, width = (float(np.atleast_1d(source.get(name))[0]) for name in ("WindowCenter", "WindowWidth"))
    function = str(source.get("VOILUTFunction") or "LINEAR").upper()
    if function == "LINEAR":
        center, width = center - 0.5, width - 1.0
    if width < 0.0 or (width == 0.0 and function != "LINEAR"):
        raise InvalidInput(str(file), f"WindowWidth {width:g}", "a width above 0")
    if function == "SIGMOID":
        bent: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-4.0 * (values - center) / width))
        return bent
    if width == 0.0:
        return (values > center).astype(np.float64)
    return Window(center=center, width=width).shares(values)
