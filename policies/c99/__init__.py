"""A bundle's graph compiled to one C99 source and header: static shapes, batch 1, no allocation, no library but math.h."""
