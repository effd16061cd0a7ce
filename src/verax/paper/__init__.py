"""The paper's data sets, models, studies and claims."""
