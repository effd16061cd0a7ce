"""Names that come with Verax, for help texts and completion: to import their classes would load torch, for seconds.

``tests/cli/test_names.py`` holds them against what is registered.
"""

METRICS = (
    "pc",
    "dpc",
    "deletion",
    "insertion",
    "srg",
    "comprehensiveness",
    "sufficiency",
    "effect_correlation",
    "infidelity",
    "infidelity_uncertainty",
    "lpc",
    "sensitivity_n",
)
METHODS = (
    "AttentionRollout",
    "DeepLiftSHAP",
    "Gradient",
    "GuidedBackprop",
    "IntegratedGradients",
    "KernelShap",
    "LimeGroups",
    "LimeImage",
    "LimeTabular",
    "Occlusion",
    "PermutationShap",
    "Random",
    "Edges",
    "SmoothGrad",
    "VarGrad",
    "TreeShap",
)
REPLACEMENTS = (
    "blur:sigma=NUMBER",
    "conditional",
    "marginal",
    "noisy_linear",
    "baseline",
    "toward:epsilon=NUMBER",
    "nudge:epsilon=NUMBER",
)
DATASETS = ("heloc", "isic", "breast-cancer", "digits", "diabetes", "file")
DATA_HELP = (
    "heloc: a CSV file (else downloaded); isic: the folder of images and labels; file: a .csv, .parquet or .npz file."
)
ARCHITECTURES = ("linear", "mlp", "inception")
SPECS = ("demo", "paper-heloc", "paper-isic")
