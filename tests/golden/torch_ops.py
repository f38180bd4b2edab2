"""Plain PyTorch formulas of the ops in core/kernels.h, written from the papers in probability space.

Nothing here is fast or fused, and nothing is taken from the C++ code: these are the second opinion that the
golden files record. Shapes: B sequences, T positions, H query heads, G key/value heads, d head width.
"""
import math

import torch
import torch.nn.functional as F


def rms_norm(x, weight=None, eps=1e-5):
    """x / sqrt(mean(x²) + eps) over the last axis, times weight (D) if given."""
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rope_table(positions, head_dim, theta, dtype):
    """cos and sin of position · theta^(-2i/d), each (positions, d/2)."""
    frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency[None, :]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def yarn_table(positions, head_dim, theta, scale, original, dtype, beta_fast=32.0, beta_slow=1.0):
    """rope_table with the frequencies and the factor of YaRN's reference code, whose ramp runs over the index."""
    def index(turns):
        return head_dim * math.log(original / (2 * math.pi * turns)) / (2 * math.log(theta))

    low = min(max(math.floor(index(beta_fast)), 0), head_dim - 1)
    high = min(max(math.ceil(index(beta_slow)), 0), head_dim - 1)
    pair = torch.arange(head_dim // 2, dtype=torch.float64)
    ramp = ((pair - low) / (high - low if high > low else 1e-3)).clamp(0, 1)
    frequency = theta ** (-2 * pair / head_dim)
    frequency = frequency / scale * ramp + frequency * (1 - ramp)
    factor = 0.1 * math.log(scale) + 1.0
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency[None, :]
    return (factor * angle.cos()).to(dtype), (factor * angle.sin()).to(dtype)


def rope(x, cos, sin, positions):
    """Half-split rotation (the Hugging Face Llama convention) of x (B, T, H, d) at positions (B, T)."""
    c = torch.cat([cos, cos], -1)[positions.long()][:, :, None, :]
    s = torch.cat([sin, sin], -1)[positions.long()][:, :, None, :]
    first, second = x.chunk(2, -1)
    return x * c + torch.cat([-second, first], -1) * s


def causal_mask(length, window):
    """(T, T) true where row t may see column j: j <= t, and t - j < window unless window is 0."""
    t, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return (j <= t) & ((t - j < window) if window else torch.ones(length, length, dtype=torch.bool))


def masked_softmax(scores, mask):
    """Softmax over the last axis among the masked-in entries; a row with none is 0."""
    mask = mask.expand_as(scores)
    top = scores.detach().masked_fill(~mask, -float("inf")).max(-1, keepdim=True).values
    top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    weights = torch.where(mask, torch.exp(torch.where(mask, scores - top, torch.zeros_like(scores))),
                          torch.zeros_like(scores))
    total = weights.sum(-1, keepdim=True)
    empty = total == 0
    return torch.where(empty, torch.zeros_like(weights), weights / torch.where(empty, torch.ones_like(total), total))


def attention(q, k, v, scale, window=0, bias=None, allowed=None, marked=None, segment=None):
    """q (B, T, H, d), k and v (B, T, G, d) -> out (B, T, H, d), probs (B, H, T, T)."""
    batch, length, heads, _ = q.shape
    share = heads // k.shape[2]
    k, v = (x.repeat_interleave(share, dim=2) for x in (k, v))  # query head h reads key/value head h // share
    scores = torch.einsum("bthd,bjhd->bhtj", q, k) * scale
    if bias is not None:
        scores = scores + bias
    mask = causal_mask(length, window).expand(batch, length, length)
    if allowed is not None:
        mask = mask & (allowed != 0)
    if marked is not None:
        mask = mask & (marked != 0)[:, :, None] & (marked != 0)[:, None, :]
    if segment is not None:
        mask = mask & (segment[:, :, None] == segment[:, None, :])
    mask = mask[:, None]
    probs = masked_softmax(scores, mask)
    return torch.einsum("bhtj,bjhd->bthd", probs, v), probs


def pointer(q, k, tokens, targets, scale, sink=None, shift=0, copy_self=False, window=0, segment=None):
    """Pointer of CPLM §2.3 / PSM §3.1 over past positions and, if given, a sink with score sink (B, T).

    Key j stands for the token at position p = j + shift. Row t may point at p < t, or p <= t with copy_self.
    Only keys of the row's own segment count. Returns pi (B, T): the weight on positions whose token is the target
    (0 without a target), un-normalised; a_sink (B, T): the sink's weight, 1 for a row without any source; and
    weights (B, T, T): column p is the weight on the token at position p.
    """
    batch, length, _ = q.shape
    t, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    p = j + shift
    mask = (p <= t) if copy_self else (p < t)
    if window:
        mask = mask & (t - j < window)
    mask = mask.expand(batch, length, length)
    if segment is not None:
        mask = mask & (segment[:, :, None] == segment[:, None, :])
    scores = torch.einsum("btd,bjd->btj", q, k) * scale
    columns, allowed = scores, mask
    if sink is not None:
        columns = torch.cat([scores, sink[:, :, None]], -1)
        allowed = torch.cat([mask, torch.ones(batch, length, 1, dtype=torch.bool)], -1)
    weights = masked_softmax(columns, allowed)
    a_sink = weights[:, :, length] if sink is not None else torch.zeros_like(scores[:, :, 0])
    a_sink = torch.where(mask.any(-1), a_sink, torch.ones_like(a_sink))
    named = tokens[:, p[0].clamp(max=length - 1)]  # (B, T) the token each key stands for
    hit = (named[:, None, :] == targets[:, :, None]) & (targets >= 0)[:, :, None]
    pi = (weights[:, :, :length] * hit).sum(-1)
    by_position = F.pad(weights[:, :, :length], (shift, 0))[:, :, :length]
    return pi, a_sink, by_position


def safe_log(p):
    """log p with -inf, and no gradient, where p is 0."""
    return torch.where(p > 0, torch.where(p > 0, p, torch.ones_like(p)).log(), torch.full_like(p, -float("inf")))


def mixture_slot(p_target, alpha, pi, a_sink):
    """Variant A, the author's formula: P(y)(1 + alpha·a_sink/(1 - alpha)) + alpha·pi(y).

    p_target is the softmax over the vocabulary and the <copy> row, alpha that of the <copy> row.
    """
    return p_target * (1 + alpha * a_sink / (1 - alpha)) + alpha * pi


def mixture_sink_dropped(p_target, alpha, pi, a_sink):
    """Variant B: the sink's mass is lost."""
    return p_target + alpha * pi


def mixture_no_sink(p_target, alpha, pi, a_sink):
    """Variant F: the pointer is a distribution (or empty: then the gate has nothing to offer)."""
    lm = p_target / (1 - alpha)
    has_source = a_sink == 0
    return torch.where(has_source, (1 - alpha) * lm + alpha * pi, lm)


def mixture_sigmoid(p_lm, g, pi, a_sink):
    """Variant G: p_lm is the softmax over the vocabulary alone, g a sigmoid gate."""
    return (1 - g + g * a_sink) * p_lm + g * pi


def mixture_floor(p_target, alpha, pi, a_sink, floor):
    """Variant I: the gate is at least `floor`."""
    a = floor + (1 - floor) * alpha
    return p_target / (1 - alpha) * (1 - a * (1 - a_sink)) + a * pi
