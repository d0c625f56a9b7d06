"""What a run learns, in PyTorch's own functions: the losses that src/train/{classification,...}.cpp must equal."""

import torch
from torch.nn import functional as F

NOTHING_IGNORED = -100


def dice_loss_each(logits, targets, ignore_index=None):
    """[n]; as MONAI's DiceLoss(softmax=True, to_onehot_y=True), which smooths both sides by 1e-5."""
    predicted = logits.softmax(1)
    counted = torch.ones_like(targets, dtype=torch.bool) if ignore_index is None else targets != ignore_index
    wanted = F.one_hot(targets.where(counted, 0), logits.shape[1]).movedim(-1, 1).to(logits.dtype)
    mask = counted.unsqueeze(1)
    predicted, wanted = predicted * mask, wanted * mask
    both = (predicted * wanted).flatten(2).sum(2)
    either = predicted.flatten(2).sum(2) + wanted.flatten(2).sum(2)
    return 1 - ((2 * both + 1e-5) / (either + 1e-5)).mean(1)


def segmentation_each(logits, targets, dice_weight=1.0, ignore_index=None):
    ignored = NOTHING_IGNORED if ignore_index is None else ignore_index
    pixels = F.cross_entropy(logits, targets, reduction="none", ignore_index=ignored).flatten(1)
    each = pixels.sum(1) / (targets.flatten(1) != ignored).sum(1).clamp(min=1)
    return each if dice_weight == 0 else each + dice_weight * dice_loss_each(logits, targets, ignore_index)


def loss_sum(task, outputs, targets, label_smoothing=0.0, ignore_index=None, dice_weight=1.0, distance="mse"):
    """The summed loss of a micro-batch and what it counts."""
    ignored = NOTHING_IGNORED if ignore_index is None else ignore_index
    wide = outputs if outputs.dtype == torch.float64 else outputs.float()
    if task == "classification":
        return F.cross_entropy(wide, targets, reduction="sum", label_smoothing=label_smoothing), len(targets)
    if task == "language_model":
        loss = F.cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=ignored,
                               label_smoothing=label_smoothing)
        return loss, int((targets != ignored).sum())
    if task == "segmentation":
        return segmentation_each(wide, targets, dice_weight, ignore_index).sum(), len(targets)
    functions = {"mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss}
    rows = [values.reshape(len(targets), -1) for values in (wide, targets)]
    return functions[distance](*rows, reduction="none").mean(1).sum(), len(targets)


def cases(ramp):
    """Golden cases: name, task, outputs, targets, options; the same in tests/unit/train/objective_test.cpp."""
    def ints(shape, classes, salt):
        return ramp(shape, torch.float64, salt).mul(2**20).long().remainder(classes)

    masks = ints([2, 4, 6], 3, 4)
    holes = masks.clone()
    holes[0, :2] = 255
    holes[1] = 255
    padded = ints([3, 5], 7, 3)
    padded[1, 2:] = -1
    flat, text = ramp([6, 4], torch.float64, 1) * 4, ramp([3, 5, 7], torch.float64, 2) * 4
    image, values = ramp([2, 3, 4, 6], torch.float64, 5) * 4, ramp([5, 2, 3], torch.float64, 6) * 3
    return [
        ("plain", "classification", flat, ints([6], 4, 7), {}),
        ("smoothed", "classification", flat, ints([6], 4, 7), {"label_smoothing": 0.1}),
        ("text", "language_model", text, ints([3, 5], 7, 3), {}),
        ("padded", "language_model", text, padded, {"ignore_index": -1, "label_smoothing": 0.2}),
        ("mask", "segmentation", image, masks, {}),
        ("cross_entropy_only", "segmentation", image, masks, {"dice_weight": 0.0}),
        ("holes", "segmentation", image, holes, {"ignore_index": 255, "dice_weight": 0.5}),
        ("mse", "regression", values, ramp([5, 2, 3], torch.float64, 8), {}),
        ("l1", "regression", values, ramp([5, 2, 3], torch.float64, 8), {"distance": "l1"}),
        ("smooth_l1", "regression", values, ramp([5, 2, 3], torch.float64, 8), {"distance": "smooth_l1"}),
    ]


def metrics(task, outputs, targets, options):
    """Metrics by the field's definitions, one sample or class at a time: slow and plain."""
    ignored = options.get("ignore_index", NOTHING_IGNORED)
    plain = {k: v for k, v in options.items() if k != "label_smoothing"}
    total, count = loss_sum(task, outputs, targets, **plain)
    found = {"loss": total.item() / count}
    if task == "regression":
        error = (outputs - targets).flatten()
        return {**found, "mae": error.abs().mean().item(), "rmse": error.square().mean().sqrt().item()}
    if task == "language_model":
        found["perplexity"] = torch.tensor(found["loss"], dtype=torch.float64).exp().item()
        outputs, targets = outputs.flatten(0, 1), targets.flatten()
    counted = targets != ignored
    right = (outputs.argmax(1) == targets) & counted
    found["accuracy"] = right.sum().item() / counted.sum().item()
    if task == "segmentation":
        ious, dices = [], []
        for label in range(outputs.shape[1]):
            is_found, is_wanted = (outputs.argmax(1) == label) & counted, (targets == label) & counted
            both, either = (is_found & is_wanted).sum().item(), (is_found | is_wanted).sum().item()
            if either > 0:
                ious.append(both / either)
                dices.append(2 * both / (is_found.sum() + is_wanted.sum()).item())
        found["miou"], found["dice"] = sum(ious) / len(ious), sum(dices) / len(dices)
    return found


def golden(ramp):
    out = []
    for name, task, outputs, targets, options in cases(ramp):
        leaf = outputs.clone().requires_grad_()
        loss, count = loss_sum(task, leaf, targets, **options)
        loss.backward()
        out.append({"name": name, "task": task, "outputs": outputs.flatten().tolist(), "shape": list(outputs.shape),
                    "targets": targets.flatten().tolist(), "target_shape": list(targets.shape), "options": options,
                    "loss": loss.item(), "count": count, "gradient": leaf.grad.flatten().tolist(),
                    "metrics": metrics(task, outputs, targets, options)})
    return out
