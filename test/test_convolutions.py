"""Depthwise convolutions of small maps: the quick gradient is the gradient."""

import pytest
import torch
from torch import nn

from aerial_vpr_cl.model.convolutions import SmallMapConv, learn_quickly_on_small_maps


def a_convolution(kernel, channels=6, **options):
    return nn.Conv2d(channels, channels, kernel, groups=channels, bias=False, dtype=torch.double, **options)


def made_quick(conv):
    """What stands in its place in a model that is to learn quickly."""
    model = nn.Sequential(conv)
    learn_quickly_on_small_maps(model)
    return model[0]


@pytest.mark.parametrize("kernel", [(5, 5), (7, 7), (5, 7)])
@pytest.mark.parametrize("size", [(4, 4), (3, 7), (1, 1)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_outputs_and_gradients_are_those_of_pytorch(kernel, size, layout):
    torch.manual_seed(0)
    usual = a_convolution(kernel, padding=tuple(side // 2 for side in kernel))
    quick = a_convolution(kernel, padding=tuple(side // 2 for side in kernel))
    quick.load_state_dict(usual.state_dict())
    quick = made_quick(quick)
    assert type(quick) is SmallMapConv
    maps = torch.randn(5, 6, *size, dtype=torch.double).contiguous(memory_format=layout)
    weights = torch.randn(5, 6, *size, dtype=torch.double)
    results = []
    for conv in (usual, quick):
        inputs = maps.clone().requires_grad_()
        outputs = conv(inputs)
        (outputs * weights).sum().backward()
        results.append((outputs, inputs.grad, conv.weight.grad))
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "conv",
    [
        a_convolution(3, padding=1),  # quick as it is
        a_convolution(5, padding=2, stride=2),
        a_convolution(5),
        a_convolution(6, padding="same"),
        a_convolution(5, padding=4, dilation=2),
        nn.Conv2d(6, 6, 5, padding=2, bias=False),
        nn.Conv2d(6, 6, 5, padding=2, groups=6),
    ],
)
def test_other_convolutions_stay_as_they_are(conv):
    conv = made_quick(conv)
    assert type(conv) is nn.Conv2d


def test_large_maps_take_the_usual_way():
    conv = made_quick(a_convolution(5, padding=2))
    outputs = conv(torch.randn(1, 6, 9, 9, dtype=torch.double, requires_grad=True))
    assert "Convolution" in type(outputs.grad_fn).__name__
