"""Servers and processes on this machine: private RabbitMQ, Redis, children, a sample site."""
