"""Many robots at once: engines, actuators, sensors, randomisation and tasks."""
