"""throttle: a politeness-aware frontier and token-bucket service for Celery on RabbitMQ."""
