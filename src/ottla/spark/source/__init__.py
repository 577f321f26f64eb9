"""Reading: what a query of Spark asks for, split into ranges, from brokers or from segments."""
