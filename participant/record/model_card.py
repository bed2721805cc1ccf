"""Write the model card of an exported model: its training data, how it was chosen, its scores and its limits of use.

Markdown for people, and the same content as JSON for programs. Data are described by counts only. Everything comes from
the state folder; the other members and their weights are as the coordinator sent them with the last model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedap_core.choosing import BEST, HitCount, instead_sentence
from participant.record.agreement import read_terms
from participant.record.kept_models import KeptModel, KeptModels
from participant.record.private_state import replace_text

FEW = 20
"""The card names classes with fewer test samples than this: their scores say little."""

Card = dict[str, Any]


def card_paths(out: Path) -> tuple[Path, Path]:
    """Paths of an exported model's card, in the same folder: (Markdown, JSON)."""
    return out.with_name(f"{out.stem}.card.md"), out.with_name(f"{out.stem}.card.json")


def write_card(out: Path, kept: KeptModels, which: str, state: Path) -> Path:
    """Write both files beside the exported model; return the path of the Markdown file."""
    card = card_of(kept, which, read_terms(state / "state" / kept.notes["run"]))
    text, data = card_paths(out)
    replace_text(data, json.dumps(card, indent=1) + "\n")
    replace_text(text, "\n".join(markdown(card)) + "\n")
    return text


def card_of(kept: KeptModels, which: str, terms: Mapping[str, Any] | None) -> Card:
    """Return the card as plain values. terms: those agreed to with the coordinator."""
    chosen = kept.models[kept.choice.of(which).name]
    plan: Mapping[str, Any] = {} if terms is None else terms["plan"]
    return {
        "model": kept.spec.model,
        "participant": kept.notes.get("participant", ""),
        "which": chosen.candidate.name,
        "why": kept.choice.sentence if which == BEST else f"requested by --which {which}",
        "candidates": {name: _reached(one) for name, one in kept.models.items()},
        "data": {
            "input_shape": list(kept.spec.input_shape),
            "samples": {"train": int(kept.notes.get("train_samples", 0)), **_totals(chosen)},
            "test_samples_by_class": _by_class(kept, chosen, "samples"),
        },
        "scores_by_class": _class_scores(kept, chosen),
        "quality": {split: _quality(one) for split, one in chosen.judged.items()},
        "run": {
            "name": kept.notes.get("run", ""),
            "algorithm": kept.notes.get("algorithm", ""),
            "rounds": chosen.rounds,
            "settings": dict(plan),
            "mixed_from": dict(kept.mixed_from),
            "similarity": kept.similarity,
            "kept_instead": kept.instead,
        },
        "privacy": {
            "sealed": plan.get("sealed") is not None,
            "encoding": plan.get("encoding", ""),
            "stayed_home": "every sample and label, and the model trained alone",
        },
        "limits": list(_limits(kept, chosen)),
    }


def _reached(model: KeptModel) -> dict[str, Any]:
    tallies = (("validation", model.candidate.validation), ("test", model.candidate.test))
    return {split: _share(one) for split, one in tallies if one is not None}


def _share(one: HitCount) -> dict[str, Any]:
    return {"correct": one.correct, "samples": one.samples, "accuracy": one.accuracy, "interval": list(one.interval)}


def _totals(model: KeptModel) -> dict[str, int]:
    return {split: sum(one["samples"]) for split, one in model.judged.items()}


def _by_class(kept: KeptModels, model: KeptModel, what: str) -> dict[str, int]:
    tested = model.judged.get("test")
    return {} if tested is None else dict(zip(kept.spec.classes, tested[what], strict=True))


def _class_scores(kept: KeptModels, model: KeptModel) -> dict[str, Any]:
    """Sensitivity and precision of every class on test samples, each with its interval; None without samples."""
    tested = model.judged.get("test")
    if tested is None:
        return {}
    rows = zip(kept.spec.classes, tested["correct"], tested["samples"], tested["predicted"], strict=True)
    return {
        name: {
            "sensitivity": _share(HitCount(correct=correct, samples=samples)) if samples else None,
            "precision": _share(HitCount(correct=correct, samples=predicted)) if predicted else None,
        }
        for name, correct, samples, predicted in rows
    }


def _quality(judged: Mapping[str, Any]) -> dict[str, float]:
    return {name: judged[name] for name in ("auroc", "calibration_error") if judged.get(name) is not None}


def _limits(kept: KeptModels, model: KeptModel) -> Iterator[str]:
    yield "Research software: not a medical device, and not cleared for diagnosis."
    yield "Evaluated only on this participant's own samples; not tested on other devices, sites and patients."
    counts = _by_class(kept, model, "samples")
    never = [name for name, count in counts.items() if count == 0]
    few = [name for name, count in counts.items() if 0 < count < FEW]
    if never:
        yield f"Classes without test samples here, for which nothing was measured: {', '.join(never)}."
    if few:
        yield f"Classes with fewer than {FEW} test samples, for which the figures are uncertain: {', '.join(few)}."
    if "test" in model.judged and _quality(model.judged["test"]).get("calibration_error") is None:
        yield "The calibration of its probabilities was not measured."


# ---- as Markdown


def markdown(card: Card) -> Iterator[str]:
    """Yield the card as lines of Markdown."""
    run, data = card["run"], card["data"]
    yield f"# Model card: {card['model']} of {card['participant']}"
    yield ""
    yield card["why"]
    yield ""
    if run["kept_instead"]:
        yield instead_sentence(run["kept_instead"])
        yield ""
    yield from _table(
        ("model", "validation accuracy (95 % interval)", "test accuracy (95 % interval)"),
        [
            (f"**{name}**" if name == card["which"] else name, _words(one.get("validation")), _words(one.get("test")))
            for name, one in card["candidates"].items()
        ],
    )
    yield "The model of this card is printed in bold. Test samples were not used to choose it."
    yield ""
    yield "## Data"
    yield ""
    samples = ", ".join(f"{count} {split}" for split, count in data["samples"].items())
    yield f"Samples: {samples}. Input: {' x '.join(map(str, data['input_shape']))}."
    yield ""
    yield "## Scores by class, on test samples"
    yield ""
    yield from _table(
        ("class", "samples", "sensitivity (95 % interval)", "precision (95 % interval)"),
        [
            (name, data["test_samples_by_class"][name], _words(one["sensitivity"]), _words(one["precision"]))
            for name, one in card["scores_by_class"].items()
        ],
    )
    for split, quality in card["quality"].items():
        if "calibration_error" in quality:
            yield f"Expected calibration error on {split} samples: {100 * quality['calibration_error']:.1f} points."
    yield ""
    yield "## Training"
    yield ""
    yield f"Run {run['name']}, algorithm {run['algorithm']}, {run['rounds']} rounds."
    yield ""
    yield from _mixing(card)
    yield from _table(("setting", "value"), list(_settings(run["settings"])))
    yield "## Privacy"
    yield ""
    hidden = "hidden from the coordinator (sealed mode)" if card["privacy"]["sealed"] else "seen by the coordinator"
    yield f"Never sent: {card['privacy']['stayed_home']}. Updates were {hidden}."
    yield ""
    yield "## Limits of use"
    yield ""
    yield from (f"- {limit}" for limit in card["limits"])


def _mixing(card: Card) -> Iterator[str]:
    """List the members whose updates were mixed into the last federated model: this participant's row of W."""
    shares = card["run"]["mixed_from"]
    if not shares:
        return
    yield "Weights of the members' updates in the last federated model (this participant's row of W):"
    yield ""
    yield from _table(("member", "weight"), [(name, f"{100 * weight:.1f} %") for name, weight in shares.items()])
    if (similarity := card["run"]["similarity"]) is not None:
        yield f"Similarity to the most similar member: {similarity:.2f} (1 is equal statistics)."
        yield ""


def _words(one: Mapping[str, Any] | None) -> str:
    return "–" if one is None else HitCount(correct=one["correct"], samples=one["samples"]).words


def _settings(plan: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in plan.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{name}.")
        elif not name.endswith("_layout"):
            yield f"{prefix}{name}", value


def _table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    yield from ("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)
    yield ""
