"""What a match is worth, fitted on what a map shows of itself: also on one that shows next to nothing."""

import numpy as np
import pytest

from aerial_vpr_cl.localization.likelihood import HOPELESS_Z, RHO_VALUES, MatchLikelihood, fit

WRONG = np.random.default_rng(0).standard_normal(20_000)


@pytest.mark.parametrize("hopeful", [0, 1, RHO_VALUES - 1])
def test_bare_ground_keeps_the_usual_shares_and_is_told_nothing_by_its_views(hopeful):
    right = np.concatenate([np.full(hopeful, 3.0 * HOPELESS_Z), np.linspace(-1.0, 1.0, 80 - hopeful)])
    bare = fit(right, np.full(80, 20.0), WRONG)
    assert bare.rho == MatchLikelihood.rho and bare.hopeless == pytest.approx(1.0 - hopeful / 80.0, abs=0.011)
    ratios = bare.table(20.0)
    assert np.isfinite(ratios).all() and ratios.min() > 0.0


def test_ground_that_keeps_half_of_its_structure_is_expected_to_keep_half():
    rng = np.random.default_rng(1)
    possible = rng.uniform(15.0, 40.0, 400)
    found = fit(possible * rng.uniform(0.45, 0.55, 400), possible, WRONG)
    assert len(found.rho) == RHO_VALUES and found.rho[RHO_VALUES // 2] == pytest.approx(0.5, abs=0.02)
    assert found.hopeless == pytest.approx(0.05)
