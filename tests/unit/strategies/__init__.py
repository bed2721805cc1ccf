"""The algorithms: their weights, what they keep at home, their objectives and schedules."""
