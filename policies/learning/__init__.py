"""Training: contracts as torch graphs, PPO, export, evaluation and learning from corrections."""
