"""`placement: WhenCheaper` under a load that swings across its threshold."""
