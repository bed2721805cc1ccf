# The coordinator: no PyTorch. Build from the repository: docker build -f examples/docker/coordinator.Dockerfile -t fedap-coordinator .
FROM python:3.11-slim
COPY . /src
RUN pip install --no-cache-dir /src && rm -rf /src && useradd --create-home --uid 1000 fedap
USER fedap
WORKDIR /data
STOPSIGNAL SIGKILL
ENTRYPOINT ["fedap-coordinator"]
CMD ["serve", "--config", "run.toml"]
