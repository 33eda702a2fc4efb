"""Options of methods: declared once, refused with the nearest name, and reaching what they set."""

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.method_options import OPTIONS, DerppOptions, check_method, parse_method, selection_settings
from aerial_vpr_cl.learning.methods import METHODS, method_of
from aerial_vpr_cl.memory.strategies import STRATEGIES, Pool, select
from aerial_vpr_cl.settings import load_settings

ROOT = Path(__file__).parent.parent


def test_every_method_declares_its_options_and_each_has_a_description():
    assert set(OPTIONS) == {*METHODS, *STRATEGIES}
    for name, kind in OPTIONS.items():
        assert method_of(name).options == kind()
        assert all(field.metadata["help"] for field in dataclasses.fields(kind))


def test_the_papers_values_are_the_defaults():
    values = {name: dataclasses.asdict(kind()) for name, kind in OPTIONS.items()}
    assert values["dbs_hybrid"] == {"exemplar_weight": 1.0, "replay_weight": 1.0, "trim_ratio": 0.05}
    assert values["dbs"]["prototype_weight"] == 1.0
    assert values["lwf"] == {"distillation_weight": 0.5, "temperature": 2.0}
    assert values["derpp"] == {"logit_weight": 0.5}
    assert values["udil"] | {"alignment_weight": 0.1, "stability_weight": 10.0, "bound_weight": 5.0} == values["udil"]


def test_options_follow_the_name():
    assert parse_method("derpp+logit_weight=0.25") == ("derpp", DerppOptions(0.25))
    method = method_of("dbs_hybrid+trim_ratio=0.2+exemplar_weight=2")
    assert (method.strategy, method.options.trim_ratio, method.options.exemplar_weight) == ("dbs_hybrid", 0.2, 2.0)
    assert method_of("udil+discriminator_rate=1e-3").options.discriminator_rate == 1e-3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dbs_hibrid", r"unknown method 'dbs_hibrid'; did you mean 'dbs_hybrid'\?"),
        ("derpp+logit_wait=1", r"'derpp\+logit_wait=1': unknown setting 'logit_wait'; did you mean 'logit_weight'\?"),
        ("random+trim_ratio=0.1", "unknown setting 'trim_ratio'; valid names: exemplar_weight, replay_weight"),
        ("ft+exemplar_weight=1", "unknown setting"),
        ("dbs_hybrid+trim_ratio", "has no value"),
        ("dbs_hybrid+trim_ratio=2", "0.0 to 1.0"),
        ("dbs_hybrid+trim_ratio=much", "must be a number"),
        ("dbs_hybrid+trim_ratio=[", "cannot be read"),
        ("", "unknown method ''"),
    ],
)
def test_what_is_no_method_or_no_option_is_refused_with_words(text, words):
    with pytest.raises(SettingsError, match=words):
        check_method(text)
    with pytest.raises(SettingsError, match=f"'method': .*{words}"):  # the same wherever settings are read
        load_settings(AdaptSettings, {"method": text})


def test_a_node_can_check_a_method_without_pytorch():
    script = (
        "import sys, aerial_vpr_cl.learning.adapt_settings as s; s.AdaptSettings(); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


def test_selection_is_done_with_the_options():
    rng = np.random.default_rng(0)
    features, prototype = rng.normal(size=(40, 8)), rng.normal(size=8)
    pool = Pool(features, np.zeros(40, int), np.tile(prototype, (40, 1)), np.zeros(40), np.zeros(40))

    def chosen(text):
        method = method_of(text)
        return select(method.strategy, pool, 10, np.random.default_rng(0), selection_settings(method.options)).tolist()

    assert chosen("dbs_hybrid") == select("dbs_hybrid", pool, 10, rng).tolist()
    assert chosen("dbs_hybrid+trim_ratio=0.7") != chosen("dbs_hybrid")
    assert chosen("dbs+prototype_weight=50") != chosen("dbs")


def test_the_page_of_methods_is_that_of_the_code():
    spec = importlib.util.spec_from_file_location("write_methods", ROOT / "docs" / "write_methods.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    text = writer.PAGE.read_text()
    assert writer.page(text) == text, "run python docs/write_methods.py"
    assert all(f"| `{name}` |" in text for name in OPTIONS)
