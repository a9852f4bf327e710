"""The commands of `isthmus`, one file each. They import what they need when they run."""
