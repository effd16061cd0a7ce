"""Verax beside other libraries: Captum's calling convention, metrics for Quantus, explanations of shap.

Each module is imported by its name (``import verax.interop.captum``); none is loaded by ``import verax``.
"""
