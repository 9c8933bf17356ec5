"""What can never work in a graph, found before anything runs."""
