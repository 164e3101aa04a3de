# One image for beat, dispatcher and worker; docker-compose.yml says which it is.
FROM python:3.11-slim

WORKDIR /app
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY throttle throttle
RUN pip install --no-cache-dir --constraint constraints.txt . \
    && useradd --system --create-home throttle

# Not in /app: there the sources would be imported instead of what was installed.
WORKDIR /home/throttle
USER throttle
CMD ["throttlectl", "--help"]
