"""Work of brokers on topics by their admin API, and checks that it was done."""
