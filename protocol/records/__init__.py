"""Record batches: Kafka's formats 0, 1 and 2, compression, CRCs and control records."""
