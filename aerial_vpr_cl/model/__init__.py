"""The network: frozen trunk, living tail, aggregation, grouped angular-margin heads."""
