"""What tests share: builders of models, oracles, attacks."""
