"""The leaderboard as a page: tables by data set, ranks over all of them, accuracy against rounds and bytes."""
