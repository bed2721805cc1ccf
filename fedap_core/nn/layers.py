"""[convolution, BN, max-pool, ReLU] on a CPU by tiles: the same mathematics and gradients as the stock layers, faster.

A tile is the group of neighbouring output pixels that one pooling window covers. It depends on one input window
slightly larger than the kernel, so the convolution is one matrix product over tiles with a widened kernel (far fewer
patches to copy, four times the columns), and pooling is a maximum over a memory axis. BN works per channel, whatever
the order of the pixels, so the caller's own BN layer is used and sees (n, C, ...), tile by tile.
Independent of the architecture; unsupported cases use the stock layers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Pair = tuple[int, int]
Context = Any  # torch types the context of an autograd function as Any

_VECTOR = 8
"""float32 lanes of AVX2: BN's channels-last kernel pays off only if whole vectors of channels fit."""


class _Tiling(NamedTuple):
    """How one convolution and its pool divide an input; plain numbers, computed once per shape."""

    size: Pair
    channels: int
    kernel: Pair
    pool: Pair
    grid: Pair  # tiles down and across
    window: Pair  # input pixels a tile depends on
    tile: int  # output pixels of a tile


@lru_cache(maxsize=64)
def _tiling(size: Pair, channels: int, kernel: Pair, pool: Pair) -> _Tiling | None:
    """Return the tiling, or None if tiles do not fit: the pool must divide the output and the widened kernel."""
    if pool not in ((1, 2), (2, 2)):
        return None
    output = (size[0] - kernel[0] + 1, size[1] - kernel[1] + 1)
    window = (kernel[0] + pool[0] - 1, kernel[1] + pool[1] - 1)
    if min(output) < 1 or any(output[i] % pool[i] or window[i] % pool[i] for i in (0, 1)):
        return None
    grid = (output[0] // pool[0], output[1] // pool[1])
    return _Tiling(size, channels, kernel, pool, grid, window, pool[0] * pool[1])


def conv_bn_pool(conv: nn.Conv2d, bn: nn.BatchNorm2d, images: Tensor, pool: Pair) -> Tensor:
    """Compute relu(max_pool(bn(conv(images)))) for images (n, C, H, W), up to float32 rounding.

    Max-pool may come before ReLU because they commute exactly: ReLU is monotone, so relu(max(v)) == max(relu(v)), and
    the gradient is the same (a window whose maximum is <= 0 passes none in either order).
    """
    tiling = _covered(conv, bn, images, pool)
    if tiling is None:
        return F.relu(F.max_pool2d(bn(conv(images)), pool))
    channels_last = conv.out_channels % _VECTOR == 0
    convolve = _ChannelsLastTiles if channels_last else _ChannelsFirstTiles
    values: Tensor = bn(convolve.apply(images, conv.weight, conv.bias, tiling))  # type: ignore[no-untyped-call]
    pooled: Tensor = _TileMax.apply(values, 3 if channels_last else 2)  # type: ignore[no-untyped-call]
    return pooled.view(*pooled.shape[:2], *tiling.grid)


def use_stock_layers(model: nn.Module) -> None:
    """Compute this model with its stock layers, without tiles: slower, and with different last bits."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            layer.fedap_stock = True  # type: ignore[assignment]  # our own attribute; not a tensor, so not in a state


def _covered(conv: nn.Conv2d, bn: nn.BatchNorm2d, images: Tensor, pool: Pair) -> _Tiling | None:
    weight, bias = conv.weight, conv.bias
    if bias is None or type(conv) is not nn.Conv2d or not isinstance(bn, nn.BatchNorm2d):
        return None
    if "fedap_stock" in vars(conv):
        return None
    if conv._forward_hooks or conv._forward_pre_hooks or conv._backward_hooks or conv._backward_pre_hooks:
        return None  # the stock layer has hooks, so it must run
    if conv.stride != (1, 1) or conv.padding != (0, 0) or conv.dilation != (1, 1) or conv.groups != 1:
        return None
    if not (images.is_cpu and weight.is_cpu) or torch.is_autocast_enabled("cpu"):
        return None
    if images.dtype != torch.float32 or weight.dtype != torch.float32 or images.dim() != 4:
        return None
    n, channels, height, width = images.shape
    if n == 0 or channels != conv.in_channels:
        return None
    return _tiling((height, width), channels, (weight.shape[2], weight.shape[3]), pool)


class _ChannelsFirstTiles(torch.autograd.Function):
    """Convolution to (n, O, tile, grid): one small product per image, tiles along the last axis."""

    @staticmethod
    def forward(ctx: Context, images: Tensor, weight: Tensor, bias: Tensor, t: _Tiling) -> Tensor:
        n, outputs = images.shape[0], weight.shape[0]
        (height, width), (down, across) = t.size, t.pool
        # separate even and odd columns, so that every row of a patch below is contiguous
        split = images.reshape(n, t.channels, height, width // across, across).transpose(3, 4).contiguous()
        s = split.stride()
        shape = (n, t.channels, t.window[0], t.window[1] // across, across, *t.grid)
        patches = split.as_strided(shape, (s[0], s[1], s[2], s[4], s[3], down * s[2], s[4]))
        patches = patches.reshape(n, t.channels * t.window[0] * t.window[1], -1)
        wide = weight.new_zeros(outputs, *t.pool, t.channels, *t.window)
        _shifted(wide, t).copy_(weight[:, None, None])
        wide = wide.view(outputs * t.tile, -1)
        ctx.save_for_backward(patches, wide)
        ctx.tiling = t
        wide_bias = bias.unsqueeze(1).expand(-1, t.tile).reshape(-1, 1)
        values = torch.baddbmm(wide_bias, wide.expand(n, -1, -1), patches)
        return values.view(n, outputs, t.tile, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        patches, wide = ctx.saved_tensors
        t: _Tiling = ctx.tiling
        n, outputs = grad.shape[:2]
        flat = grad.reshape(n, outputs * t.tile, -1)
        grad_images = grad_weight = grad_bias = None
        if ctx.needs_input_grad[1]:
            widened = torch.bmm(flat, patches.transpose(1, 2)).sum(0)
            grad_weight = _sum_over_tile(_shifted(widened.view(outputs, *t.pool, t.channels, *t.window), t), 1)
        if ctx.needs_input_grad[2]:
            grad_bias = grad.sum((0, 2, 3))
        if ctx.needs_input_grad[0]:
            columns = torch.matmul(wide.t(), flat)
            grad_images = F.fold(columns, t.size, t.window, stride=t.pool)
        return grad_images, grad_weight, grad_bias, None


def _shifted(wide: Tensor, t: _Tiling) -> Tensor:
    """Return the view (O, *pool, C, *kernel) of a widened kernel (O, *pool, C, *window): each pixel's own kernel."""
    s = wide.stride()
    strides = (s[0], s[1] + s[4], s[2] + s[5], s[3], s[4], s[5])
    return wide.as_strided((wide.shape[0], *t.pool, t.channels, *t.kernel), strides)


def _sum_over_tile(shifted: Tensor, axis: int) -> Tensor:
    """Sum over the two axes of the tile's pixels; a few whole additions are faster than a reduction over a view."""
    first, *rest = [part for row in shifted.unbind(axis) for part in row.unbind(axis)]
    total = first + rest[0]
    for part in rest[1:]:
        total += part
    return total


class _ChannelsLastTiles(torch.autograd.Function):
    """Convolution to (n, O, grid, tile), channels last in memory: one product for the whole batch."""

    @staticmethod
    def forward(ctx: Context, images: Tensor, weight: Tensor, bias: Tensor, t: _Tiling) -> Tensor:
        n, outputs = images.shape[0], weight.shape[0]
        pixels = images.permute(0, 2, 3, 1).contiguous()
        s = pixels.stride()
        shape = (n, *t.grid, t.window[0], t.window[1] * t.channels)
        patches = pixels.as_strided(shape, (s[0], t.pool[0] * s[1], t.pool[1] * s[2], s[1], 1))
        patches = patches.reshape(n * t.grid[0] * t.grid[1], -1)
        wide = weight.new_zeros(*t.pool, outputs, *t.window, t.channels)
        _shifted_last(wide, t).copy_(weight.permute(0, 2, 3, 1).contiguous())
        wide = wide.view(t.tile * outputs, -1)
        ctx.save_for_backward(patches, wide)
        ctx.tiling = t
        values = torch.addmm(bias.expand(t.tile, -1).reshape(-1), patches, wide.t())
        return values.view(n, -1, t.tile, outputs).permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        patches, wide = ctx.saved_tensors
        t: _Tiling = ctx.tiling
        n, outputs = grad.shape[:2]
        flat = grad.permute(0, 2, 3, 1).reshape(-1, t.tile * outputs)
        grad_images = grad_weight = grad_bias = None
        if ctx.needs_input_grad[1]:
            widened = torch.mm(flat.t(), patches).view(*t.pool, outputs, *t.window, t.channels)
            grad_weight = _sum_over_tile(_shifted_last(widened, t), 0).permute(0, 3, 1, 2).contiguous()
        if ctx.needs_input_grad[2]:
            grad_bias = flat.view(-1, outputs).sum(0)
        if ctx.needs_input_grad[0]:
            grad_images = _fold_last(torch.mm(flat, wide), n, t)
        return grad_images, grad_weight, grad_bias, None


def _shifted_last(wide: Tensor, t: _Tiling) -> Tensor:
    """Return the view (*pool, O, *kernel, C) of a widened kernel (*pool, O, *window, C)."""
    s = wide.stride()
    strides = (s[0] + s[3], s[1] + s[4], s[2], s[3], s[4], s[5])
    return wide.as_strided((*t.pool, wide.shape[2], *t.kernel, t.channels), strides)


def _fold_last(columns: Tensor, n: int, t: _Tiling) -> Tensor:
    """Sum the contributions of the overlapping windows to each pixel: first down, in long runs, then across."""
    (height, width), (down, across), (rows, tiles) = t.size, t.pool, t.grid
    steps_down, steps_across, run = t.window[0] // down, t.window[1] // across, across * t.channels
    parts = columns.view(n, rows, tiles, steps_down, down, steps_across * run).permute(3, 0, 1, 4, 2, 5)
    if steps_down == 1:
        stacked = parts[0]
    else:
        stacked = columns.new_zeros(n, height // down, down, tiles, steps_across * run)
        for step, part in enumerate(parts.unbind(0)):
            stacked.narrow(1, step, rows).add_(part)
    pixels = columns.new_zeros(n, height // down, down, width // across, run)
    for step, part in enumerate(stacked.view(*stacked.shape[:4], steps_across, run).unbind(4)):
        pixels.narrow(3, step, tiles).add_(part)
    return pixels.view(n, height, width, t.channels).permute(0, 3, 1, 2)


class _TileMax(torch.autograd.Function):
    """relu(max over the pixels of each tile, which lie along `axis`); of equal pixels the first gets the gradient.

    This is the stock rule (first maximum in row-major order): a tile of four is compared as two pairs, upper row first,
    and each comparison keeps the earlier side if they are equal.
    """

    @staticmethod
    def forward(ctx: Context, values: Tensor, axis: int) -> Tensor:
        rows = values
        if values.shape[axis] == 4:
            left, right = _in_pairs(values, axis).unbind(axis + 1)
            rows = torch.maximum(left, right)
        upper, lower = rows.unbind(axis)
        pooled = torch.maximum(upper, lower).relu_()
        ctx.save_for_backward(values, rows, pooled)
        ctx.axis = axis
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None]:
        values, rows, pooled = ctx.saved_tensors
        axis: int = ctx.axis
        if grad.stride() != pooled.stride():  # mixed memory orders would turn every step below into a scalar loop
            grad = torch.empty_like(pooled).copy_(grad)
        grad = torch.sign(pooled).mul_(grad)  # ReLU's gradient: pooled is 0 where none passes
        grad_rows = _to_first_maximum(grad, rows, axis)
        if values.shape[axis] == 2:
            return grad_rows, None
        return _to_first_maximum(grad_rows, _in_pairs(values, axis), axis + 1).view_as(values), None


def _in_pairs(values: Tensor, axis: int) -> Tensor:
    """View the axis of four as two by two."""
    shape = values.shape
    return values.view(*shape[:axis], 2, 2, *shape[axis + 1 :])


def _to_first_maximum(grad: Tensor, values: Tensor, axis: int) -> Tensor:
    """Route `grad` to the larger of each pair along `axis` (the first if equal) and zero to the other."""
    out = torch.empty_like(values)
    first, second = values.unbind(axis)
    to_first, to_second = out.unbind(axis)
    torch.ge(first, second, out=to_first)  # 1.0 or 0.0: with a float result the comparison is vectorised
    to_first.mul_(grad)
    torch.sub(grad, to_first, out=to_second)
    return out
