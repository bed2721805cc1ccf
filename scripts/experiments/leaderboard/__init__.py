"""The leaderboard: all algorithms on all available data sets under fixed recipes, estimated durations, one page."""
