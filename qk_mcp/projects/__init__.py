"""Which projects exist, and what the user's config says about them."""
