"""Reading records: what their bytes mean, which of them are wanted, and how they are found without holding them all."""
