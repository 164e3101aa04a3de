"""The tokens in RabbitMQ: issued by beat, pulled by the dispatcher."""
