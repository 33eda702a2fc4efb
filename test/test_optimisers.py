"""Learning rates: they fall while there are still cycles to come, and go on where they were."""

import numpy as np
import pytest

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.adapt_settings import LearnSettings
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.learning.optimisers import Optimisers
from aerial_vpr_cl.model.network import Network, NetworkSettings

CYCLES_OF_OUR_BENCHMARKS = 6


@pytest.fixture(scope="module")
def network():
    grid = Grid(32632, 200.0, 1, np.array([(0, 0), (0, 1)]))
    return Network.build(NetworkSettings("tf_efficientnet_lite0", input_size=32), grid, weights="random")


def rates_over_cycles(network, settings, losses):
    """Learning rates of tail and head after every cycle with these losses."""
    optimisers = Optimisers(network, 1e-4, 1e-3, patience=settings.plateau_cycles)
    found = []
    for loss in losses:
        optimisers.end_head_epoch(0, loss)
        optimisers.end_cycle(loss)
        found.append([optimisers.adams[name].param_groups[0]["lr"] for name in ("tail", "0")])
    return np.array(found)


@pytest.mark.parametrize("cycles", [CYCLES_OF_OUR_BENCHMARKS, LearnSettings().cycles])
def test_rates_fall_in_the_first_half_of_a_mission_whose_loss_stands_still(network, cycles):
    rates = rates_over_cycles(network, LearnSettings(), [1.0] * cycles)
    assert (rates[cycles // 2] < rates[0]).all()


def test_rates_stay_while_the_loss_falls_and_one_worse_cycle_is_borne(network):
    rates = rates_over_cycles(network, LearnSettings(), [1.0, 0.9, 0.95, 0.8, 0.7])
    assert (rates == rates[0]).all()


def test_base_training_lowers_its_rates_before_it_gives_up(network):
    settings = BaseTrainingSettings()
    rates = rates_over_cycles(network, settings, [1.0] * (1 + settings.patience - 1))  # one more would be the end
    assert (rates[-1] < rates[0]).all()
