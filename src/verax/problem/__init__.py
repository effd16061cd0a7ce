"""Problems: a model, the rows to explain, what a feature is, what it becomes, and which class score to track."""
