"""A SmolLM2- or GPT-2-style decoder, and an LSTM on streams, with every head, in plain PyTorch: the second opinion on
core/nn.

Parameters are a dict name -> tensor with the names of the C++ model. All mixtures are written in probability space:
the copy-paste head after CPLM §2.3, the pointer sentinel after PSM §3.1, the mixture of softmaxes after Yang et al.
"""
import dataclasses

import torch
import torch.nn.functional as F

import torch_ops as ops


@dataclasses.dataclass(frozen=True)
class Config:
    vocab: int = 11
    dim: int = 8
    layers: int = 2
    heads: int = 2
    kv_heads: int = 2
    ffn: int = 6
    backbone: str = "full"  # full | sliding | hybrid (layer i sees everything iff i % 4 == 3)
    window: int = 0
    rope_theta: float = 10000.0
    norm: str = "rms"  # rms | layer
    mlp: str = "swiglu"  # swiglu | relu
    bias: bool = False
    positions: str = "rope"  # rope | learned | none
    max_positions: int = 0  # learned: rows of the table
    yarn_scale: float = 1.0
    yarn_original: int = 0
    meta_attention: str = "none"  # none | all | first | last
    tied: bool = True
    head: str = "vanilla"  # vanilla | copy_paste | pointer_sentinel | mixture_of_softmaxes
    gate: str = "slot"  # slot | sigmoid
    sink: str = "on"  # on | off | dropped
    copy_self: bool = True
    key_token: str = "at_key"  # at_key | next
    qk_norm: bool = True
    copy_dim: int = 0  # 0: dim
    gate_floor: float = 0.0
    detach: str = "none"  # none | q | k | both | gate | lm
    lm_aux: float = 0.0
    lm_aux_over: str = "vocabulary"  # vocabulary | extended
    pointer_aux: float = 0.0
    head_window: int = 0  # of a pointer: 0 = all
    projection: str = "tanh"  # tanh | none
    scale: str = "none"  # none | sqrt
    auxiliary: float = 1.0
    g: str = "joint"  # joint | sigmoid | constant: the vocabulary's share
    mixture: str = "both"  # both | pointer
    components: int = 4
    kind: str = "transformer"  # transformer | lstm

    @property
    def slot(self):
        return self.head == "copy_paste" and self.gate == "slot"


def has_meta(c, layer):
    return c.meta_attention == "all" or layer == {"none": None, "first": 0, "last": c.layers - 1}[c.meta_attention]


def parameter_shapes(c):
    """Every parameter's name and shape, weights (out, in)."""
    d, kv, rows = c.dim // c.heads, c.kv_heads * (c.dim // c.heads), c.vocab + (1 if c.slot else 0)
    shapes = {"embed.weight": (rows if c.tied else c.vocab, c.dim)}

    def norm(name):
        shapes[name + ".weight"] = (c.dim,)
        if c.bias and c.norm == "layer":
            shapes[name + ".bias"] = (c.dim,)

    def matrix(name, rows, columns, bias=c.bias):
        shapes[name + ".weight"] = (rows, columns)
        if bias:
            shapes[name + ".bias"] = (rows,)

    def attention(name, output_bias):
        matrix(name + ".q", c.heads * d, c.dim)
        matrix(name + ".k", kv, c.dim)
        matrix(name + ".v", kv, c.dim)
        matrix(name + ".o", c.dim, c.heads * d, output_bias)

    if c.positions == "learned":
        shapes["pos_embed.weight"] = (c.max_positions, c.dim)
    for i in range(c.layers if c.kind == "lstm" else 0):
        shapes.update({f"lstm.{i}.w_ih": (4 * c.dim, c.dim), f"lstm.{i}.w_hh": (4 * c.dim, c.dim),
                       f"lstm.{i}.b_ih": (4 * c.dim,), f"lstm.{i}.b_hh": (4 * c.dim,)})
    for i in range(c.layers if c.kind == "transformer" else 0):
        b = f"blocks.{i}."
        norm(b + "norm1")
        attention(b + "attn", c.bias)
        if has_meta(c, i):
            norm(b + "meta.norm")
            attention(b + "meta", False)  # a row that sees nothing gets 0
        norm(b + "norm2")
        if c.mlp == "swiglu":
            matrix(b + "mlp.gate", c.ffn, c.dim)
        matrix(b + "mlp.up", c.ffn, c.dim)
        matrix(b + "mlp.down", c.dim, c.ffn)
    if c.kind == "transformer":
        norm("norm")
    if not c.tied and c.mixture == "both":
        shapes["lm_head.weight"] = (rows, c.dim)
    if c.head == "copy_paste":
        width = c.copy_dim or c.dim
        shapes["copy_head.q.weight"] = (width, c.dim)
        shapes["copy_head.k.weight"] = (width, c.dim)
        if c.sink != "off":
            shapes["copy_head.sink"] = (width,)
        if c.qk_norm:
            shapes["copy_head.q_gain"] = (1,)
        if c.gate == "sigmoid":
            shapes["copy_head.gate.weight"] = (1, c.dim)
            shapes["copy_head.gate.bias"] = (1,)
    if c.head == "pointer_sentinel":
        if c.projection == "tanh":
            shapes["copy_head.q.weight"] = (c.dim, c.dim)
            shapes["copy_head.q.bias"] = (c.dim,)
        if c.g == "joint":
            shapes["copy_head.sentinel"] = (c.dim,)
        else:
            shapes["copy_head.gate.bias"] = (1,)
        if c.g == "sigmoid":
            shapes["copy_head.gate.weight"] = (1, c.dim)
    if c.head == "mixture_of_softmaxes":
        shapes["mixture_head.prior.weight"] = (c.components, c.dim)
        shapes["mixture_head.latent.weight"] = (c.components * c.dim, c.dim)
    return shapes


def decays(name):
    """Weight decay applies to matrices only, not to norms, sink, gain and bias; nor to learned positions, of which a
    short sequence reaches only the first."""
    exempt = (".sink", ".sentinel", ".q_gain", ".bias", ".b_ih", ".b_hh")
    return not (".norm" in name or name.startswith(("norm", "pos_embed")) or name.endswith(exempt))


def hidden(c, params, tokens, segment=None, meta=None, zero_position=None, zero_embedding=None, allowed=None):
    """Final normed hidden states (B, T, D) of tokens (B, T). meta (B, T) marks meta-tokens; zero_position and
    zero_embedding (B, T) mark positions without encoding and tokens without embedding; allowed (B, T, T) what a row
    may see."""
    batch, length = tokens.shape
    d = c.dim // c.heads

    def matrix(name, x):
        y = x @ params[name + ".weight"].T
        return y + params[name + ".bias"] if name + ".bias" in params else y

    def norm(name, x):
        if c.norm == "layer":
            return F.layer_norm(x, (c.dim,), params[name + ".weight"], params.get(name + ".bias"), 1e-5)
        return ops.rms_norm(x, params[name + ".weight"])

    x = params["embed.weight"][tokens.long()]
    if zero_embedding is not None:
        x = x * (zero_embedding == 0)[..., None]
    positions = torch.arange(length).expand(batch, length)
    if c.positions == "learned":
        vectors = params["pos_embed.weight"][positions]
        x = x + (vectors if zero_position is None else vectors * (zero_position == 0)[..., None])
    if c.yarn_scale > 1:
        cos, sin = ops.yarn_table(length, d, c.rope_theta, c.yarn_scale, c.yarn_original, x.dtype)
    else:
        cos, sin = ops.rope_table(length, d, c.rope_theta, x.dtype)
    if zero_position is not None:
        positions = positions * (zero_position == 0)

    def attend(name, y, window, **masks):
        q = matrix(name + ".q", y).view(batch, length, c.heads, d)
        k = matrix(name + ".k", y).view(batch, length, c.kv_heads, d)
        if c.positions == "rope":
            q, k = ops.rope(q, cos, sin, positions), ops.rope(k, cos, sin, positions)
        v = matrix(name + ".v", y).view(batch, length, c.kv_heads, d)
        out, _ = ops.attention(q, k, v, d ** -0.5, window, segment=segment, allowed=allowed, **masks)
        return matrix(name + ".o", out.reshape(batch, length, c.dim))

    for i in range(c.layers):
        b = f"blocks.{i}."
        sees_all = c.backbone == "full" or (c.backbone == "hybrid" and i % 4 == 3)
        x = x + attend(b + "attn", norm(b + "norm1", x), 0 if sees_all else c.window)
        if meta is not None and has_meta(c, i):
            x = x + attend(b + "meta", norm(b + "meta.norm", x), 0, marked=meta)
        y = norm(b + "norm2", x)
        up = matrix(b + "mlp.up", y)
        inner = F.relu(up) if c.mlp == "relu" else F.silu(matrix(b + "mlp.gate", y)) * up
        x = x + matrix(b + "mlp.down", inner)
    return norm("norm", x)


def copy_pointer(c, params, h, tokens, targets, segment):
    """The copy head's pi, sink weight, from hidden states h (B, T, D)."""
    h_q = h.detach() if c.detach in ("q", "both") else h
    h_k = h.detach() if c.detach in ("k", "both") else h
    q, k = h_q @ params["copy_head.q.weight"].T, h_k @ params["copy_head.k.weight"].T
    if c.qk_norm:
        q = ops.rms_norm(q, eps=1e-6) * params["copy_head.q_gain"]
        k = ops.rms_norm(k, eps=1e-6)
    scale = q.shape[-1] ** -0.5
    sink = None if c.sink == "off" else q @ params["copy_head.sink"] * scale
    pi, a_sink, _ = ops.pointer(q, k, tokens, targets, scale, sink, shift=0 if c.key_token == "at_key" else 1,
                                   copy_self=c.copy_self, window=c.head_window, segment=segment)
    return pi, a_sink


def forward(c, params, tokens, targets, segment=None, h=None, **given):
    """Per position (B, T): nll (0 without a target), lm_nll; aux for heads with an auxiliary loss; and gate, sink, pi
    for those with a pointer. h (B, T, D): the final hidden states, if they are known; `given`: what else hidden()
    takes."""
    if h is None:
        h = hidden(c, params, tokens, segment, **given)
    if c.mixture == "both":
        table = params["embed.weight" if c.tied else "lm_head.weight"]
    else:
        table = torch.zeros_like(params["embed.weight"])  # every token alike
    logits = (h.detach() if c.detach == "lm" else h) @ table.T
    labelled = targets >= 0
    y = targets.clamp(min=0).long()[..., None]
    lm = F.softmax(logits[..., :c.vocab], -1)
    lm_target = lm.gather(-1, y)[..., 0]
    zero = torch.zeros_like(lm_target)

    def negative_log(p):
        return torch.where(labelled, -torch.where(labelled, p, torch.ones_like(p)).log(), zero)

    if c.head == "mixture_of_softmaxes":
        weights = F.softmax(h @ params["mixture_head.prior.weight"].T, -1)
        states = torch.tanh(h @ params["mixture_head.latent.weight"].T).reshape(*h.shape[:2], c.components, c.dim)
        p = (weights[..., None] * F.softmax(states @ table.T, -1)).sum(-2).gather(-1, y)[..., 0]
        return {"nll": negative_log(p), "lm_nll": negative_log(p)}

    out = {"lm_nll": torch.where(labelled, -lm_target.log(), zero)}
    if c.head == "vanilla":
        out["nll"] = out["lm_nll"]
        return out

    if c.head == "pointer_sentinel":
        q = h if c.projection == "none" else torch.tanh(h @ params["copy_head.q.weight"].T + params["copy_head.q.bias"])
        scale = 1.0 if c.scale == "none" else c.dim ** -0.5
        sentinel = q @ params["copy_head.sentinel"] * scale if c.g == "joint" else None
        pi, a_sink, _ = ops.pointer(q, h, tokens, targets, scale, sentinel, copy_self=True, window=c.head_window,
                                    segment=segment)
        if c.g == "joint":
            g, gate, pi_mixed = a_sink, torch.ones_like(a_sink), pi
        else:
            w = params["copy_head.gate.weight"][0] if c.g == "sigmoid" else torch.zeros_like(h[0, 0])
            g = torch.sigmoid(h @ w + params["copy_head.gate.bias"])
            gate, pi_mixed = 1 - g, (1 - g) * pi
        if c.auxiliary:
            out["aux"] = c.auxiliary * negative_log(g + pi_mixed)
        return {**out, "nll": negative_log(g * lm_target + pi_mixed), "gate": gate, "sink": a_sink, "pi": pi}

    pi, a_sink = copy_pointer(c, params, h, tokens, targets, segment)
    if c.gate == "slot" and c.detach == "gate":
        # The gate learns only through W_copy: neither h nor the log-partition carries its gradient.
        u = h.detach() @ table[c.vocab] - torch.logsumexp(logits[..., :c.vocab], -1).detach()
        alpha = torch.sigmoid(u)
        p_target = lm_target * (1 - alpha)
    elif c.gate == "slot":
        extended = F.softmax(logits, -1)
        p_target, alpha = extended.gather(-1, y)[..., 0], extended[..., c.vocab]
    else:
        h_gate = h.detach() if c.detach == "gate" else h
        alpha = torch.sigmoid(h_gate @ params["copy_head.gate.weight"][0] + params["copy_head.gate.bias"])
        p_target = lm_target * (1 - alpha)

    if c.gate_floor:
        p = ops.mixture_floor(p_target, alpha, pi, a_sink, c.gate_floor)
    elif c.sink == "off":
        p = ops.mixture_no_sink(p_target, alpha, pi, a_sink)
    elif c.sink == "dropped":
        p = ops.mixture_sink_dropped(p_target, alpha, pi, a_sink)
    elif c.gate == "sigmoid":
        p = ops.mixture_sigmoid(lm_target, alpha, pi, a_sink)
    else:
        p = ops.mixture_slot(p_target, alpha, pi, a_sink)
    if c.lm_aux or c.pointer_aux:
        # Cross-entropy of the LM head over the vocabulary, or over the <copy> row as well (CPLM §2.7); PSM §3.2.
        lm = lm_target if c.lm_aux_over == "vocabulary" else F.softmax(logits, -1).gather(-1, y)[..., 0]
        out["aux"] = c.lm_aux * negative_log(lm) + c.pointer_aux * negative_log(pi + a_sink)
    return {**out, "nll": negative_log(p), "gate": c.gate_floor + (1 - c.gate_floor) * alpha, "sink": a_sink, "pi": pi}


def forward_stretches(c, params, tokens, targets, lengths, memory):
    """An LSTM reads streams, tokens and targets (B, sum of lengths), in stretches; nothing is differentiated across
    their borders. A pointer sees the states of `memory` positions before a stretch. Returns forward()'s dict of each
    stretch."""
    batch, first, outs = tokens.shape[0], 0, []
    table = params["embed.weight"]
    state = tuple(torch.zeros(c.layers, batch, c.dim, dtype=table.dtype) for _ in range(2))
    weights = [params[f"lstm.{i}.{name}"] for i in range(c.layers) for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
    past_h = torch.zeros(batch, memory, c.dim, dtype=table.dtype)
    past = torch.full((batch, memory), -1, dtype=tokens.dtype)
    for length in lengths:
        now, y = tokens[:, first:first + length], targets[:, first:first + length]
        h, *state = torch._VF.lstm(table[now.long()], tuple(s.detach() for s in state), weights, True, c.layers, 0.0,
                                   False, False, True)
        all_h, all_tokens = torch.cat([past_h, h], 1), torch.cat([past, now], 1)
        # The memory as positions without targets; what lies before the streams' start as another document.
        out = forward(c, params, all_tokens, torch.cat([torch.full_like(past, -1), y], 1),
                      torch.where(all_tokens < 0, -1, 0), all_h)
        outs.append({k: v[:, memory:] for k, v in out.items()})
        if memory:
            past_h, past = all_h[:, -memory:].detach(), all_tokens[:, -memory:]
        first += length
    return outs


def mean_loss(out, targets):
    """Mean over labelled positions of what training minimises."""
    return (out["nll"].sum() + out.get("aux", torch.zeros(())).sum()) / (targets >= 0).sum()


def train(c, params, tokens, targets, lr, weight_decay=0.01, clip=1.0):
    """AdamW steps on batches tokens and targets (S, B, T) with learning rates lr (S).

    Returns the losses and gradient norms (S) before each update; params hold the final values.
    """
    for p in params.values():
        p.requires_grad_(True)
    groups = [{"params": [p for n, p in params.items() if decays(n)], "weight_decay": weight_decay},
              {"params": [p for n, p in params.items() if not decays(n)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for s in range(len(lr)):
        for group in optimizer.param_groups:
            group["lr"] = float(lr[s])
        optimizer.zero_grad(set_to_none=True)
        loss = mean_loss(forward(c, params, tokens[s], targets[s]), targets[s])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), clip).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms
