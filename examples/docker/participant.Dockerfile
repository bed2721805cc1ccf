# A participant. Build from the repository: docker build -f examples/docker/participant.Dockerfile -t fedap-participant .
FROM python:3.11-slim
COPY . /src
RUN pip install --no-cache-dir '/src[participant]' && rm -rf /src && useradd --create-home --uid 1000 fedap
USER fedap
WORKDIR /data
STOPSIGNAL SIGKILL
ENTRYPOINT ["fedap-participant"]
CMD ["join", "--config", "join.toml"]
