"""Statistics as pure functions of plain numbers. Each docstring gives the formula and its source.

Importing this package does not import numpy or scipy; the functions that need them import them when called. Run A is
the baseline, run B is the new run, and differences are B minus A.
"""

from agentbench_report.statistics.amounts import PairedAmounts, fieller, paired_amounts
from agentbench_report.statistics.binomial import clopper_pearson, wilson
from agentbench_report.statistics.bootstrap import Bootstrap, bootstrap_mean, seed_of
from agentbench_report.statistics.clusters import (
    VarianceComponents,
    cluster_mean,
    cluster_se,
    korn_graubard,
    variance_components,
)
from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.many import benjamini_hochberg, benjamini_yekutieli, cochran_q, holm
from agentbench_report.statistics.means import MeanEstimate, mean_difference, se_clt, tango_mean
from agentbench_report.statistics.noninferiority import NonInferiority, Verdict, noninferiority, noninferiority_mean
from agentbench_report.statistics.paired import (
    PairTable,
    discordant_odds_ratio,
    mcnemar_asymptotic,
    mcnemar_exact,
    mcnemar_midp,
    newcombe10,
    tango,
)
from agentbench_report.statistics.permutation import SignFlip, sign_flip
from agentbench_report.statistics.power import (
    connor_power,
    connor_tasks,
    exact_power,
    exact_tasks,
    miettinen_tasks,
    miller_tasks,
    minimum_detectable,
    minimum_detectable_mean,
)
from agentbench_report.statistics.rates import (
    MeanAtK,
    mean_of_means,
    mean_pass_at_k,
    mean_pass_hat_k,
    pass_at_k,
    pass_hat_k,
    task_interval,
)

__all__ = [
    "Bootstrap",
    "Interval",
    "MeanAtK",
    "MeanEstimate",
    "NonInferiority",
    "PairTable",
    "PairedAmounts",
    "SignFlip",
    "VarianceComponents",
    "Verdict",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "bootstrap_mean",
    "clopper_pearson",
    "cluster_mean",
    "cluster_se",
    "cochran_q",
    "connor_power",
    "connor_tasks",
    "discordant_odds_ratio",
    "exact_power",
    "exact_tasks",
    "fieller",
    "holm",
    "korn_graubard",
    "mcnemar_asymptotic",
    "mcnemar_exact",
    "mcnemar_midp",
    "mean_difference",
    "mean_of_means",
    "mean_pass_at_k",
    "mean_pass_hat_k",
    "miettinen_tasks",
    "miller_tasks",
    "minimum_detectable",
    "minimum_detectable_mean",
    "newcombe10",
    "noninferiority",
    "noninferiority_mean",
    "paired_amounts",
    "pass_at_k",
    "pass_hat_k",
    "se_clt",
    "seed_of",
    "sign_flip",
    "tango",
    "tango_mean",
    "task_interval",
    "variance_components",
    "wilson",
]
