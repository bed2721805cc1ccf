"""All algorithms on all data sets that are here, under fixed recipes: what is run, how long it takes, one page."""
