"""The guarded way in: publishers, receipts, transactions."""
