"""The paper's protocol, metrics, orders and reports."""
