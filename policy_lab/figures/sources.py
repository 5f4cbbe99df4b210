"""Where the formulas of the figures come from."""

from __future__ import annotations

from broker_common.language import phrase
from policy_lab.document.model import Source

PAPER = Source(
    phrase(
        "A. Casteigts, M.-H. Chomienne, L. Bouchard, G.-V. Jourdan, Differential Privacy in Tripartite Interaction: A Case Study "
        "with Linguistic Minorities in Canada, DPM 2012, LNCS 7731, pp. 75-88."
    ),
    "https://doi.org/10.1007/978-3-642-35890-6_6",
)
DWORK = Source(
    phrase(
        "C. Dwork, F. McSherry, K. Nissim, A. Smith, Calibrating Noise to Sensitivity in Private Data Analysis, TCC 2006."
    ),
    "https://doi.org/10.1007/11681878_14",
)
WARNER = Source(
    phrase(
        "S. L. Warner, Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias, Journal of the American "
        "Statistical Association 60 (1965), pp. 63-69."
    ),
    "https://doi.org/10.1080/01621459.1965.10480775",
)
KAIROUZ = Source(
    phrase("P. Kairouz, K. Bonawitz, D. Ramage, Discrete Distribution Estimation under Local Privacy, ICML 2016."),
    "https://arxiv.org/abs/1602.07387",
)
FELDMAN = Source(
    phrase(
        "V. Feldman, A. McMillan, K. Talwar, Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy "
        "Amplification by Shuffling, 2020."
    ),
    "https://arxiv.org/abs/2012.12803",
)
CANONNE = Source(
    phrase("C. Canonne, G. Kamath, T. Steinke, The Discrete Gaussian for Differential Privacy, NeurIPS 2020."),
    "https://arxiv.org/abs/2004.00010",
)
GHOSH = Source(
    phrase(
        "A. Ghosh, T. Roughgarden, M. Sundararajan, Universally Utility-Maximizing Privacy Mechanisms, SIAM Journal on Computing 41 "
        "(2012): the discrete Laplace law is the best noise of one count."
    ),
    "https://arxiv.org/abs/0811.2841",
)
MIRONOV = Source(
    phrase(
        "I. Mironov, On Significance of the Least Significant Bits for Differential Privacy, CCS 2012: why noise made of floating "
        "point numbers may be shown and never released."
    ),
    "https://doi.org/10.1145/2382196.2382264",
)
ARGUMENT = Source(
    phrase("ARGUMENT (broker_common/privacy/ARGUMENT.md): section 1 says what is claimed, section 2 proves it.")
)
DESIGN_ACCOUNTING = Source(phrase("DESIGN, section 5: charges, caps, and the two ways of accounting."))
DESIGN_NOISE = Source(phrase("DESIGN, section 6: the law of the noise, of one cell and of several."))
