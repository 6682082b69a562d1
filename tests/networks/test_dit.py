"""Transformers, against published counts, hand-written formulas, and rotations of complex numbers."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, conv_transpose2d

from ganexp.config.check import check
from ganexp.facts import Misfit, UserError
from ganexp.networks import DiTDiscriminator, DiTGenerator
from ganexp.networks.dit import Attention, TokenBlock, joined, patches, rotated, sines, turns
from tests.composing import composed
from tests.tiny import count_parameters

F64 = torch.float64
SIZES = {"S": (12, 384, 6, 33), "B": (12, 768, 12, 130), "L": (24, 1024, 16, 458), "XL": (28, 1152, 16, 675)}
"""Depth, width, heads, and parameters in millions, of DiT-…/2 (Peebles & Xie 2023, tables 1 and 4)."""
TINY = {"patch": 2, "depth": 2, "width": 24, "heads": 3}
KINDS = ("dit", "gat")
POSITIONS = ("rope", "learned", "fixed")


def moved(network):
    """Return a network in float64 with weights that are nowhere 0."""
    torch.manual_seed(0)
    network = network.double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    return network


@pytest.mark.parametrize("size", SIZES)
def test_published_sizes_have_the_published_parameters(size):
    depth, width, heads, millions = SIZES[size]
    latent, pixels, tokens = (4, 32, 32), 4 * 2 * 2, 16 * 16
    block = 4 * (width + 1) * width + (width + 1) * 4 * width + (4 * width + 1) * width + (width + 1) * 6 * width
    classes, step = 1001 * width, 257 * width + (width + 1) * width
    ends = (pixels + 1) * width + (width + 1) * 2 * width + (width + 1) * 2 * pixels + tokens * width
    assert int((depth * block + classes + step + ends) / 1e6 + 0.5) in (millions, millions + 1)  # the paper's 131 is 130
    with torch.device("meta"):
        settings = {"patch": 2, "depth": depth, "width": width, "heads": heads, "classes": 1000}
        flow = DiTGenerator(4096, latent, z="tokens", positions="fixed", **settings)
        discriminator = DiTDiscriminator(latent, positions="fixed", **settings)
        generator = DiTGenerator(64, latent, **settings)
    body = depth * block + (pixels + 1) * width  # and neither a step, nor a class for no class, nor variances, nor places
    assert count_parameters(flow) == body + 1000 * width + (width + 1) * (2 * width + pixels)
    assert count_parameters(discriminator) == body + 1000 * width + width + width
    mapping = (64 + width + 1) * width + (width + 1) * width + 1000 * width + width
    assert count_parameters(generator) == depth * block + mapping + (width + 1) * (2 * width + pixels)


def test_patches_are_those_of_a_convolution_and_are_put_back():
    torch.manual_seed(0)
    x, weight = torch.randn(2, 3, 8, 12, dtype=F64), torch.randn(5, 3, 4, 4, dtype=F64)
    cut = patches(x, 4)
    assert cut.shape == (2, 6, 48)
    torch.testing.assert_close(cut @ weight.flatten(1).T, conv2d(x, weight, stride=4).flatten(2).mT)
    assert torch.equal(joined(cut, (2, 3), 4), x)
    tokens, back = torch.randn(2, 6, 5, dtype=F64), torch.randn(5, 3, 4, 4, dtype=F64)
    torch.testing.assert_close(
        joined(tokens @ back.flatten(1), (2, 3), 4), conv_transpose2d(tokens.mT.unflatten(2, (2, 3)), back, stride=4)
    )


def test_places_have_sines_and_cosines_of_their_row_and_column():
    table = sines((2, 3), 8)
    for row in range(2):
        for column in range(3):
            by_hand = [f(place * w) for place in (row, column) for f in (math.sin, math.cos) for w in (1.0, 0.01)]
            assert table[3 * row + column].tolist() == pytest.approx(by_hand, abs=1e-15)


def test_vectors_are_rotated_as_complex_numbers_by_row_and_column():
    torch.manual_seed(0)
    x, angles = torch.randn(2, 6, 8, dtype=F64), turns((2, 3), 8)
    for place in range(6):
        row, column = divmod(place, 3)
        waves = torch.tensor([row * 1.0, row * 0.01, column * 1.0, column * 0.01], dtype=F64)
        by_hand = torch.view_as_complex(x[:, place].unflatten(1, (4, 2))) * torch.polar(torch.ones_like(waves), waves)
        torch.testing.assert_close(rotated(x, angles)[:, place], torch.view_as_real(by_hand).flatten(1), rtol=1e-14, atol=1e-14)


def test_products_of_rotated_vectors_depend_on_differences_of_places_alone():
    torch.manual_seed(0)
    query, key = torch.randn(2, 8, dtype=F64)
    angles = turns((4, 5), 8)
    products = rotated(query.expand(20, 8), angles) @ rotated(key.expand(20, 8), angles).T
    places = [divmod(place, 5) for place in range(20)]
    of_difference: dict[tuple[int, int], list[float]] = {}
    for i, (row, column) in enumerate(places):
        for j, (other, beside) in enumerate(places):
            of_difference.setdefault((row - other, column - beside), []).append(products[i, j].item())
    assert len(of_difference) == 7 * 9
    assert all(one == pytest.approx([one[0]] * len(one), rel=1e-12) for one in of_difference.values())
    assert len({round(one[0], 9) for one in of_difference.values()}) == 63


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_attention_is_its_formula(normalized, fused):
    layer, x, angles = moved(Attention(12, 3, normalized=normalized, fused=fused)), torch.randn(2, 6, 12, dtype=F64), None
    angles = turns((2, 3), 4)
    queries, keys, values = (x @ layer.to_all.weight.T + layer.to_all.bias).split(12, 2)
    heads = []
    for some in (slice(0, 4), slice(4, 8), slice(8, 12)):
        q, k, v = queries[..., some], keys[..., some], values[..., some]
        if normalized:
            q, k = (
                one / (one.square().mean(-1, keepdim=True) + 1e-6).sqrt() * by.weight
                for one, by in ((q, layer.of_queries), (k, layer.of_keys))
            )
        q, k = rotated(q, angles), rotated(k, angles)
        for_each = torch.einsum("bid,bjd->bij", q, k) / 2
        weights = for_each.exp() / for_each.exp().sum(2, keepdim=True)
        heads.append(torch.einsum("bij,bjd->bid", weights, v))
    by_hand = torch.cat(heads, 2) @ layer.out.weight.T + layer.out.bias
    torch.testing.assert_close(layer(x, angles), by_hand, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_is_its_formula(kind):
    block, x, vector = (
        moved(TokenBlock(12, 3, kind, modulated=True, fused=False)),
        torch.randn(2, 6, 12, dtype=F64),
        torch.randn(2, 12),
    )
    vector = vector.double()
    made = (vector * vector.sigmoid()) @ block.modulation.linear.weight.T + block.modulation.linear.bias
    parts = made[:, None].split(12, 2)
    if kind == "dit":
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = parts
    else:
        (scale_1, gate_1, scale_2, gate_2), shift_1, shift_2 = parts, 0, 0

    def normal(one):
        one = one - one.mean(2, keepdim=True) if kind == "dit" else one
        return one / (one.square().mean(2, keepdim=True) + 1e-6).sqrt()

    x_1 = x + gate_1 * block.attention(normal(x) * (1 + scale_1) + shift_1)
    h = normal(x_1) * (1 + scale_2) + shift_2
    if kind == "dit":
        first, _, second = block.perceptron
        h = h @ first.weight.T + first.bias
        h = h / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    else:
        first, second = block.perceptron.first, block.perceptron.second
        a, b = (h @ first.weight.T + first.bias).split(32, 2)
        h = a * a.sigmoid() * b
    by_hand = x_1 + gate_2 * (h @ second.weight.T + second.bias)
    torch.testing.assert_close(block(x, None, vector), by_hand, rtol=1e-11, atol=1e-12)


def test_new_blocks_of_dit_pass_tokens_on_and_new_generators_make_zeros():
    """AdaLN-zero: Peebles & Xie 2023, section 3.2."""
    torch.manual_seed(0)
    x, vector = torch.randn(2, 6, 12), torch.randn(2, 12)
    assert torch.equal(TokenBlock(12, 3, "dit", modulated=True, fused=False)(x, None, vector), x)
    assert not DiTGenerator(5, (3, 4, 6), **TINY)(torch.randn(2, 5)).any()
    assert DiTGenerator(5, (3, 4, 6), block="gat", **TINY)(torch.randn(2, 5)).std() > 0.1


@pytest.mark.parametrize("classes", [0, 4])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_discriminator_is_its_formula(kind, positions, classes):
    D = moved(DiTDiscriminator((3, 4, 6), block=kind, positions=positions, classes=classes, **TINY))
    x, labels = torch.randn(2, 3, 4, 6, dtype=F64), (torch.tensor([3, 1]),) * (classes > 0)
    tokens = patches(x, 2) @ D.first.weight.T + D.first.bias + D.positions
    tokens = torch.cat([D.token.expand(2, 1, 24), tokens], 1)
    angles = None
    if positions == "rope":
        angles = torch.cat([torch.zeros(1, 4, dtype=F64), turns((2, 3), 8)]).float().double()
    vector = () if kind == "gat" else (D.vectors.embedding.weight[labels[0] if labels else torch.zeros(2).long()],)
    for block in D.blocks:
        tokens = block(tokens, angles, *vector)
    made = D.linear(D.norm(tokens[:, 0]))
    if kind == "gat" and classes:
        made = (made * D.mapping(x.flatten(1)[:, :0], *labels)).sum(1, keepdim=True) / math.sqrt(24)
    torch.testing.assert_close(D(x, *labels), made[:, 0], rtol=1e-11, atol=1e-12)
    assert (D.positions.requires_grad, "positions" in D.state_dict()) == ((positions == "learned",) * 2)
    (gradient,) = torch.autograd.grad(D(x.requires_grad_(), *labels).sum(), x)
    assert gradient.all()
    assert [one.shape for one in D.features(x, *labels)] == [(2, 7, 24)] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_generators_of_tokens_read_z_place_by_place_and_those_of_blocks_everywhere(kind):
    z, labels = torch.randn(2, 72, dtype=F64), torch.tensor([3, 1])
    flow = moved(DiTGenerator(72, (3, 4, 6), block=kind, z="tokens", classes=4, **TINY))
    tokens = patches(z.view(2, 3, 4, 6), 2) @ flow.first.weight.T + flow.first.bias + flow.positions
    vector = flow.vectors.embedding.weight[labels]
    for block in flow.blocks:
        tokens = block(tokens, flow.angles, vector)
    by_hand = joined(flow.last(tokens, vector), (2, 3), 2)
    torch.testing.assert_close(flow(z, labels), by_hand, rtol=1e-11, atol=1e-12)
    G = moved(DiTGenerator(72, (3, 4, 6), block=kind, classes=4, **TINY))
    vector, tokens = G.vectors(z, labels), G.positions.expand(2, -1, -1)
    for block in G.blocks:
        tokens = block(tokens, G.angles, vector)
    torch.testing.assert_close(G(z, labels), joined(G.last(tokens, vector), (2, 3), 2), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives_agree_with_differences_of_first_ones(kind):
    D = moved(DiTDiscriminator((1, 4, 4), block=kind, **TINY))
    x, step, way = torch.randn(2, 1, 4, 4, dtype=F64, requires_grad=True), 1e-5, torch.randn(2, 1, 4, 4, dtype=F64)

    def slope(at):
        return torch.autograd.grad(D(at).sum(), at, create_graph=True)[0]

    (second,) = torch.autograd.grad((slope(x) * way).sum(), x)
    ahead, behind = (slope((x + sign * step * way).detach().requires_grad_()) for sign in (1, -1))
    torch.testing.assert_close(second, (ahead - behind).detach() / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"patch": 4}, {"patch": 2}),
        ({"heads": 5}, {"width": 40}),
        ({"heads": 4}, {"width": 32}),
        ({"width": 22, "heads": 2, "positions": "fixed"}, {"width": 24}),
    ],
)
@pytest.mark.parametrize("network", [DiTDiscriminator, lambda *shape, **settings: DiTGenerator(3, *shape, **settings)])
def test_sizes_that_do_not_fit_are_refused_with_some_that_do(network, settings, remedy):
    with pytest.raises(Misfit) as error:
        network((3, 6, 8), **TINY | settings)
    assert error.value.remedy == remedy
    network((3, 6, 8), **TINY | settings | remedy)


def test_noise_of_another_shape_is_refused():
    with pytest.raises(Misfit) as error:
        DiTGenerator(3, (3, 4, 6), z="tokens", **TINY)
    assert error.value.remedy == {"z": "blocks", "latent_dim": 72}


SMALL = [f"{side}.{key}={value}" for side in ("generator", "discriminator") for key, value in TINY.items()]


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("penalty=[r1] discriminator.fused=true", "discriminator.fused=false"),
        ("strategy=consensus generator.fused=true", "generator.fused=false"),
        ("wrapper=[latent_step] generator.fused=true", "generator.fused=false"),
        ("dynamics.every=5 generator.fused=true", "generator.fused=false"),
        ("penalty=[r1] generator.fused=true", None),
        ("penalty=[approx_r1r2] discriminator.fused=true generator.fused=true", None),
    ],
)
def test_fused_attention_is_refused_where_gradients_are_differentiated(typed, key):
    cfg = composed("generator=dit", "discriminator=dit", "dataset.image_size=16", "logger=[]", *SMALL, *typed.split())
    if key is None:
        check(cfg)
    else:
        with pytest.raises(UserError, match=key):
            check(cfg)
